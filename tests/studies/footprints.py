"""Simulates how often the report names the right cause of a loss: a table of docs/evidence.md.

    python -m tests.studies.footprints [SEEDS]

Every row comes from SEEDS (default 200) made campaign runs of one case. The case has three working
sets of the application, four footprints of the writes, and a repeated baseline. On a shared host it
also has a control, which makes the application 2 % slower. Application runs scatter by 1 %, pairs
by 3 %. The planted loss depends on the footprint. It is 10 % inside and beyond the cache, 10 % only
beyond it, 10 % inside and 20 % beyond it, or none. Every working set has the loss, or only the
smallest one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from types import SimpleNamespace

import numpy as np
import polars as pl

from analysis.questions.question import answer
from analysis.subjects.footprints import CACHE, CACHE_AND_MEMORY, CAUSES, MEMORY, NO_LOSS, cause
from records.arms import arm_of
from records.units import percentage
from tests.studies import head, row, show

KIB, MIB = 1 << 10, 1 << 20
LLC_B = 32 * MIB
FOOTPRINTS_B = (64 * KIB, 4 * MIB, 16 * MIB, 128 * MIB)
WORKING_SETS_B = (MIB // 2, 8 * MIB, 128 * MIB)
#: Cause -> relative times with a footprint inside the caches, and beyond them.
PLANTED = {CACHE: (1.1, 1.1), MEMORY: (1.0, 1.1), CACHE_AND_MEMORY: (1.1, 1.2), NO_LOSS: (1.0, 1.0)}
PAIRS, SEEDS = 16, 200
#: Standard deviations of the logarithm of a run's time: between runs, and between pairs.
_NOISE, _PAIR_NOISE = 0.01, 0.03
#: Time of a run beside a busy process, relative to the baseline.
_CONTROL_TIME = 1.02


def planted_run(
    planted: str, everywhere: bool, seed: int, pairs: int = PAIRS, *, control: bool = True
) -> SimpleNamespace:
    """Make the parts of a campaign run that the report's question reads.

    These are the samples, the caches of the nodes and the margin. The loss has the cause `planted`.
    If `everywhere`, all working sets have it, else only the smallest one.
    """
    rng = np.random.default_rng([seed, everywhere, *planted.encode()])
    rows = []
    for working_set_b in WORKING_SETS_B:
        is_lossy = everywhere or working_set_b == WORKING_SETS_B[0]
        inside, beyond = PLANTED[planted if is_lossy else NO_LOSS]
        level = f"working_set={working_set_b}B"
        control_time = _CONTROL_TIME if control else 1.0
        without_writes = {f"off@{level}": 1.0, f"aa@{level}": 1.0}
        if control:
            without_writes[f"spin@{level}"] = control_time
        times: dict[str, tuple[float, int | None]] = {
            **{name: (time, None) for name, time in without_writes.items()},
            **{
                f"on@footprint={size_b}B,{level}": (
                    control_time * (beyond if size_b > LLC_B else inside),
                    size_b,
                )
                for size_b in FOOTPRINTS_B
            },
        }
        for pair in range(pairs):
            pair_noise = rng.normal(0, _PAIR_NOISE)
            for arm, (time, footprint_b) in times.items():
                role = arm_of(arm).role
                rows.append(
                    {
                        "case": "made",
                        "block": 0,
                        "pair": pair,
                        "arm": arm,
                        "role": role,
                        "key": f"{pair}/{arm}",
                        "baseline": None if role == "baseline" else f"off@{level}",
                        "status": "counts",
                        "fom": time * float(np.exp(pair_noise + rng.normal(0, _NOISE))),
                        "fom_better": "lower",
                        "nodes": "node",
                        "writers": int(footprint_b is not None),
                        "writer_rate_b_s": footprint_b and 1e9,
                        "working_set_b": float(working_set_b),
                        "footprint_b": footprint_b,
                    }
                )
    host = {"llc_total_b": LLC_B, "sockets": 1, "l2_b": MIB}
    return SimpleNamespace(
        samples=pl.DataFrame(rows, infer_schema_length=None),
        provenance={"sha": {"nodes": {"node": host}}},
        header=SimpleNamespace(margin=0.03),
    )


def word_counts(
    planted: str, everywhere: bool, seeds: int, *, control: bool = True
) -> Counter[str]:
    """Return cause -> number of the `seeds` made runs for which the report names it."""
    runs = (planted_run(planted, everywhere, seed, control=control) for seed in range(seeds))
    return Counter(cause(answer(CAUSES, run)) for run in runs)


def table(seeds: int) -> Iterator[str]:
    """Yield the lines of the table, as Markdown."""
    yield from head(["planted", "in", "control", "named rightly", "otherwise"])
    for planted, control in product(PLANTED, (True, False)):
        for everywhere in (True, False):
            if planted == NO_LOSS and not everywhere:
                continue  # no loss in the smallest is no loss in any
            words = word_counts(planted, everywhere, seeds, control=control)
            others = ", ".join(f"{n} {word}" for word, n in words.items() if word != planted)
            scope = "all working sets" if everywhere else "the smallest"
            control_text = "yes" if control else "no"
            yield row(
                [
                    planted,
                    scope,
                    control_text,
                    percentage(words[planted] / seeds, ".1f"),
                    others or "-",
                ]
            )


if __name__ == "__main__":
    show(table, SEEDS)
