"""Counts of tools: roles, and how they go with the time of runs."""
