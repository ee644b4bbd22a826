"""The contention model: how computations and communications share a node's memory.

In this package, `the paper` is that of Denis, Jeannot and Swartvagher (RR-9451).
"""
