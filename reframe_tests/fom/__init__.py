"""Figures of merit: pure functions from a program's output to the values it reports."""
