"""Slowdown of a synchronised application at scales too large to measure (docs/simulate.md)."""
