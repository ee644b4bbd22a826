"""Compares two sides, each of one night or of several: periods of a machine, or two machines."""
