"""Records that the conductor writes and the analysis reads, and code that all folders use."""
