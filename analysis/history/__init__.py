"""The history of machines: the tables of all runs, and what became worse. Pure but for reading."""
