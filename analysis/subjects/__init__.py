"""One module for each question: NUMA, rails, writers."""
