"""Figures in words for people."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """`42 s`, `4 min 10 s`, `3 h 05 min`; whole seconds below an hour, whole minutes above."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min"
