"""Records that the conductor writes and the analysis reads, and the ground of all other folders."""
