"""The judge of whether a run counts: recorded series, their figures, the rules. Pure."""
