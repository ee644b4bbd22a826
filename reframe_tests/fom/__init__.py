"""Figures of merit: pure functions from a program's output to what it reports of itself."""
