"""Runs and their history as Polars frames, for notebooks and scripts.

    import nimc
    run = nimc.load("results/latest")
    run.results.select("case", "arm", "slowdown", "slowdown_low", "slowdown_high", "verdict")
    nimc.history("results").nights

Frames have SI units, named in their columns (`_s`, `_b_s`). `frame.to_pandas()` needs the extra
`notebook`. docs/data.md and docs/nights.md describe the columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.frames import History, InputError, MachineError, Runs, history, load

__all__ = ["History", "InputError", "MachineError", "Runs", "history", "load"]


def __getattr__(name: str) -> Any:
    # Every command imports this package; Polars is loaded only if frames are used.
    if name not in __all__:
        raise AttributeError(f"module 'nimc' has no attribute {name!r}")
    from analysis import frames

    return getattr(frames, name)
