"""Made nights: a recorded run again on earlier days, with made noise. They were not measured."""

import json
import math
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from analysis.history.alarms import survey
from analysis.history.monitor import IN_A_ROW
from analysis.history.store import add_run, load_nights, load_runs
from tests.analysis.synthetic import rechain

DAY_S = 86_400.0
#: Steady nights: a baseline needs 30, and may be two weeks old. Their night-to-night spread.
STEADY = 46
SPREAD = 0.02
#: Further figures of STREAM, and their power of its rate.
_OF_STREAM = {"best_b_s": 1, "minimum_s": -1, "average_s": -1, "maximum_s": -1}
#: The last of the made nights, days ago, with the loss: one less than raise an alarm.
LOSSY = tuple(range(IN_A_ROW - 1, 0, -1))


def make_history(store: Path, run: Path, *, loss: float) -> None:
    """Replace a run by steady nights, and so many with `loss` that one more raises an alarm.

    `loss`, far beyond the spread, is what the figure of merit of `off` is multiplied by. All
    nights are in the store.
    """
    rng = np.random.default_rng(14)
    for days in range(LOSSY[0] + STEADY, LOSSY[0], -1):
        _add(store, _again(run, days, _steady(days), rng))
    for days in LOSSY:
        _add(store, _again(run, days, loss, rng))
    assert survey(load_nights(store), load_runs(store)).alarms == []
    shutil.rmtree(run)


def _steady(days: int) -> float:
    """What a steady night's figures are multiplied by; bad nights do not follow each other.

    Fractional parts of multiples of the golden ratio: uniform, and far from their neighbours.
    """
    if days == LOSSY[0] + 1:
        return math.exp(2 * SPREAD)  # the sum is zero before the loss
    uniform = days * (math.sqrt(5) - 1) / 2 % 1 - 0.5
    return math.exp(SPREAD * math.sqrt(12) * uniform)


def _add(store: Path, run: Path) -> None:
    assert add_run(store, run).state == "new"


def _again(run: Path, days: int, factor: float, rng: np.random.Generator) -> Path:
    """The run so many days before now, its figures multiplied; each sample varies by 1 %."""
    header = read(run / "run.json")
    earlier_s = time.time() - days * DAY_S - header["started_s"]
    new = run.parent / f"{header['campaign']}-{header['machine']}-made-{days}"
    shutil.copytree(run, new, ignore=shutil.ignore_patterns("logs", "report", "lock"))
    moved = {moment: header[moment] + earlier_s for moment in ("started_s", "finished_s")}
    # Without a seed, since the order of the runs is that of the recorded one.
    made = {**header, **moved, "run": new.name, "seed": None}
    (new / "run.json").write_text(json.dumps(made))
    for file in (new / "samples").glob("*.jsonl"):
        samples = [json.loads(line) for line in file.read_text().splitlines()]
        for each in samples:
            each["start_s"] += earlier_s
            multiply(each, factor * math.exp(0.01 * rng.standard_normal()))
        file.write_text("".join(json.dumps(each) + "\n" for each in samples))
    return rechain(new)


def multiply(sample: dict[str, Any], by: float) -> None:
    """Multiply a sample's figure of merit, and with it what STREAM prints beside."""
    sample["fom"] *= by
    for name in sample["fom_extra"].keys() & _OF_STREAM.keys():
        sample["fom_extra"][name] *= by ** _OF_STREAM[name]


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found
