"""The report: one self-contained HTML page a machine, and the data behind it."""
