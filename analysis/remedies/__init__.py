"""Remedies: what each costs, how much it helps, and which one a machine needs. Pure functions.

A remedy is a setting, such as reserved cores, that may reduce what writes cost an application.
"""
