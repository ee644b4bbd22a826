"""Spack environments, one for each stack, with pinned versions; and their builder."""
