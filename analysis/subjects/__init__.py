"""One module for each question: NUMA, latency, intensity, regimes, writers."""
