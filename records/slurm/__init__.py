"""Slurm: parsers of what its commands print, a client that calls them, and their options."""
