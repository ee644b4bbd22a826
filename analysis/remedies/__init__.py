"""Remedies: what each costs, how much it helps, and which one a machine needs. Pure functions."""
