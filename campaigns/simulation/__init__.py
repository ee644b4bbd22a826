"""Simulated slowdowns at large scale."""
