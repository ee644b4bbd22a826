"""The report: one self-contained HTML page per machine, and its data."""
