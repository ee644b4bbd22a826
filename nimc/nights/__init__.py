"""Runs a campaign every night: measures it, judges its results, and sends a summary to the site."""
