"""The published figures of Groves, Grant and Arnold (2016), from `paper.json`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def paper() -> dict[str, Any]:
    """Tables and headline figures; keys name each list and its unit."""
    record: dict[str, Any] = json.loads(Path(__file__).with_name("paper.json").read_text())
    return record
