"""Records: samples, plans, headers of runs. Defined once, for both sides."""
