"""Reads the file of a campaign, makes its cases, and plans them on a machine."""
