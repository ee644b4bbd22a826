"""Whether a run counts: the series that were recorded, their figures, and the judge. Pure."""
