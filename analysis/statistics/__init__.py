"""Statistics, one per file. Pure functions of numbers."""
