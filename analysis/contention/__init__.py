"""The contention model: how computations and communications share a node's memory.

In this package, `the paper` is RR-9451 by Denis, Jeannot and Swartvagher.
"""
