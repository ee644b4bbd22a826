"""Remedies: what each costs, what it helps, and what follows for a machine. Pure functions."""
