"""Slowdown of a synchronised application at scales that nobody can book (docs/simulate.md)."""
