"""The contention model: how computations and communications share a node's memory.

`the paper` here is that of Denis, Jeannot and Swartvagher.
"""
