"""Runs a campaign block by block."""
