"""The contention model: how computations and communications share a node's memory (seed 003)."""
