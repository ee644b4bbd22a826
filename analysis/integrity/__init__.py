"""Whether a stored run is consistent with itself and with what its campaign asked.

`check.check_run` yields one line for each fault. Nothing here proves a figure of merit: it is
checked that each sample may count, and that none is missing, doubled or out of place.
"""
