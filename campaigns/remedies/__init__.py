"""Remedies that need root: a table of them, and the scripts that an operator installs.

Nothing here is ever run by nimc: `nimc remedy show` prints it.
"""
