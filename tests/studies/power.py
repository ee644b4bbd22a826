"""Simulates which effects a number of pairs can show.

    python -m tests.studies.power make       # writes analysis/effects/power.json; takes minutes
    python -m tests.studies.power [NIGHTS]   # prints the table of docs/evidence.md

A pair has runs of `on`, `off`, `aa` and, with a control, `spin`, in random order. They have normal
noise of 1 %. The other questions of the campaign show nothing. The file has, to three digits, the
least effect and the least margin at which 0.92 of 400 nights have the wanted verdict. The table
compares this with simulations: the share of NIGHTS (default 800) other nights that have the verdict
by the report's own estimates, p values and rules.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
from scipy import special

from analysis.effects.power import POWER, TABLE_FILE, Statement, min_loss, size_by_student
from analysis.effects.result import Verdict
from analysis.statistics import evidence
from tests.studies import FRESH, head, row, show
from tests.studies.many import ManyNights
from tests.studies.noises import normal, runs_in_order

#: Numbers of hypotheses and of pairs for which the file has sizes.
GRID = (1, 2, 4, 8, 16, 32, 64, 128, 512)
PAIRS = (6, 8, 12, 16, 24, 32, 48, 64)
WANTED: dict[Statement, Verdict] = {
    "slower": Verdict.SLOWER,
    "above_control": Verdict.SLOWER,
    "within": Verdict.NO_EFFECT,
}
#: Number of nights for a figure of the file and of the table, and the seed for the file.
FILE_NIGHTS, TABLE_NIGHTS, _SEED = 400, 800, 2
_SPREAD, _LARGE, _STEP = 0.01, 30.0, 0.05
_MARGIN = 10.0


def nights(wanted: Statement, pairs: int, count: int, seed: int) -> ManyNights:
    """Draw nights without an effect."""
    rng = np.random.default_rng([seed, pairs, wanted == "above_control"])
    runs = 4 if wanted == "above_control" else 3
    noise, after = runs_in_order(normal, rng, count, pairs, runs)
    return ManyNights(_SPREAD * noise, after[..., 1:3])


def scaled(many_nights: ManyNights, wanted: Statement, size: float) -> ManyNights:
    """Return the nights with an effect, or with a margin, of this size in spreads."""
    if wanted == "within":
        return replace(many_nights, margin=math.expm1(size * _SPREAD))
    effect = size * _SPREAD * np.eye(1, many_nights.log_times.shape[2])
    return replace(many_nights, log_times=many_nights.log_times + effect, margin=_MARGIN)


def reached(wanted: Statement, pairs: int, hypotheses: int, size: float, count: int) -> float:
    """Return the share of nights with the wanted verdict; the nights are not those of the file."""
    many_nights = scaled(nights(wanted, pairs, count, FRESH), wanted, size)
    verdicts, _ = many_nights.verdicts(hypotheses, pairs)
    return verdicts.count(WANTED[wanted]) / count


@cache
def _stable_nights(wanted: Statement, pairs: int) -> ManyNights:
    """Draw nights, and return those whose repeated baseline is not called unstable."""
    every = nights(wanted, pairs, FILE_NIGHTS, _SEED)
    stable = ~every.shown_after(pairs, "unstable", 1)
    return ManyNights(every.log_times[stable], every.after[stable])


def least(wanted: Statement, pairs: int, hypotheses: int) -> float | None:
    """Return a figure of the file: the least size, in spreads, at which enough nights show it.

    Returns None if even a very large effect is not shown often enough.
    """
    *_, last = evidence.interim_analyses(pairs)
    names = ["slower", "above_control"] if wanted == "above_control" else [wanted]

    def share(size: float) -> float:
        many_nights = scaled(_stable_nights(wanted, pairs), wanted, size)
        shown = [many_nights.shown_after(pairs, name, hypotheses) for name in names]
        return float(np.all(shown, axis=0).sum()) / FILE_NIGHTS

    if share(_LARGE) < POWER:
        return None
    size = size_by_student(last, hypotheses, wanted)
    # Estimates scatter by about `scatter`. The difference of normal quantiles says how many times
    # this the size must grow.
    scatter = math.sqrt((2.0 if wanted == "above_control" else 1.5) / pairs)
    while (so_far := share(size)) < POWER:
        size += scatter * max(float(special.ndtri(POWER) - special.ndtri(so_far)), _STEP)
    return size


def make() -> None:
    """Write the file."""
    table: dict[str, dict[str, dict[str, float | None]]] = {}
    for wanted in WANTED:
        for pairs in PAIRS:
            least_sizes = table.setdefault(wanted, {}).setdefault(str(pairs), {})
            for hypotheses in GRID:
                size = least(wanted, pairs, hypotheses)
                least_sizes[str(hypotheses)] = size and math.ceil(1000 * size) / 1000
            print(wanted, pairs, least_sizes, flush=True)
    lines = (
        f' "{wanted}": {{\n'
        + ",\n".join(f'  "{pairs}": {json.dumps(sizes)}' for pairs, sizes in by_pairs.items())
        + "\n }"
        for wanted, by_pairs in table.items()
    )
    TABLE_FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _cell(hypotheses: int, pairs: int, controlled: bool, count: int) -> str:
    loss = min_loss(pairs, hypotheses, controlled=controlled)
    if loss is None:
        return "nothing"
    wanted: Statement = "above_control" if controlled else "slower"
    share = reached(wanted, pairs, hypotheses, loss, count)
    return f"{100 * math.expm1(loss * _SPREAD):.2g} % {share:.2f}"


def table(count: int) -> Iterator[str]:
    """The lines of the table, as Markdown."""
    shown = (8, 12, 16, 24, 48)
    yield from head(["questions", *(f"{pairs} pairs" for pairs in shown)])
    for hypotheses in (1, 7, 20, 60):
        for controlled in (False, True):
            name = f"{hypotheses}, above a control" if controlled else f"{hypotheses}"
            yield row([name, *(_cell(hypotheses, pairs, controlled, count) for pairs in shown)])
        sizes = json.loads(TABLE_FILE.read_text())["within"]
        within = []
        for pairs in shown:
            number = min(family for family in GRID if family >= hypotheses)
            size = sizes[str(pairs)][str(number)]
            share = (
                "" if size is None else f"{reached('within', pairs, hypotheses, size, count):.2f}"
            )
            within.append(
                f"{100 * math.expm1(size * _SPREAD):.2g} % {share}" if size else "nothing"
            )
        yield row([f"{hypotheses}, 'no effect'", *within])


if __name__ == "__main__":
    if sys.argv[1:] == ["make"]:
        make()
    else:
        show(table, TABLE_NIGHTS)
