"""Compares two sides: two periods of a machine, or two machines.

A side has one night or several nights. A night is a run of a campaign.
"""
