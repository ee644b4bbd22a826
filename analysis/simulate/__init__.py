"""Slowdown of a synchronised application beyond measurable scales (docs/scale.md#simulate)."""
