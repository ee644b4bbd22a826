"""One module for each question: NUMA, latency, writers."""
