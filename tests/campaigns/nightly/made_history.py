"""Made nights: a recorded run again on earlier days, with made noise. They were not measured."""

from __future__ import annotations

import json
import math
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from analysis.history.store import add_run

DAY_S = 86_400.0
#: Nights before the present one, the last of which has the loss; night-to-night spread.
NIGHTS = 60
SPREAD = 0.02


def make_history(store: Path, run: Path, *, loss: float) -> int:
    """Put `run` back by a day, with so many times its figures, and steady nights before it.

    All are in the results folder and the store, and `run` itself is gone. Returns their number.
    """
    rng = np.random.default_rng(14)
    made = [
        _again(run, days, math.exp(SPREAD * rng.standard_normal()), rng)
        for days in range(NIGHTS, 1, -1)
    ]
    made.append(_again(run, 1, loss, rng))
    shutil.rmtree(run)
    for each in made:
        assert add_run(store, each).state == "new"
    return len(made)


def _again(run: Path, days: int, factor: float, rng: np.random.Generator) -> Path:
    """The run so many days before now, its figures multiplied; each sample varies by 1 %."""
    earlier_s = time.time() - days * DAY_S - read(run / "run.json")["started_s"]
    new = run.parent / f"{run.name.rsplit('-', 2)[0]}-made-{days}"
    shutil.copytree(run, new, ignore=shutil.ignore_patterns("logs", "report", "lock"))
    header = read(run / "run.json")
    for moment in ("started_s", "finished_s"):
        header[moment] += earlier_s
    (new / "run.json").write_text(json.dumps({**header, "run": new.name, "seed": None}))
    for file in (new / "samples").glob("*.jsonl"):
        samples = [json.loads(line) for line in file.read_text().splitlines()]
        for each in samples:
            each["start_s"] += earlier_s
            each["fom"] *= factor * math.exp(0.01 * rng.standard_normal())
        file.write_text("".join(json.dumps(each) + "\n" for each in samples))
    return new


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found
