"""Static pages of the history of machines: one page per machine, and one over all of them."""
