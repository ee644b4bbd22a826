"""The history of machines: the tables of all runs, and what became worse.

All functions but those that read files are pure.
"""
