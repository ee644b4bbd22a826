"""What is built: one environment a stack, pinned and locked, and the builder that makes them."""
