"""Statistics, one a file. Pure functions of numbers: none knows what was measured."""
