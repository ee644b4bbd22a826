"""Inputs that crashed a parser once, found by `make fuzz`, each as short as it can be."""

from __future__ import annotations

#: Name of the parser and the input.
FOUND: list[tuple[str, bytes]] = []
