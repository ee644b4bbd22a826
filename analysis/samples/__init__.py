"""Samples of a run: read, paired, and checked for integrity."""
