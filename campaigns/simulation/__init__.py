"""Slowdowns by simulation, at scales that nobody can book."""
