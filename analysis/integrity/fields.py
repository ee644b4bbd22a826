"""Rules for a single sample: its key, its figures, and whether it may count."""

from __future__ import annotations

import polars as pl

from analysis.columns import MOST
from analysis.integrity.faults import Rule
from analysis.run import RunHeader

#: Smallest figure other than 0; smaller ones are not measured, and their inverse overflows.
_LEAST = 1 / MOST
#: Most runs of a pair, repetitions of a run, and pairs of a block.
_MOST_RUNS = 1_000_000
#: A share that was stored and is computed again may differ by rounding.
_ROUNDING = 1e-9
#: How far the clocks of the nodes may be from that of the header's host, seconds.
_CLOCKS_S = 60.0


def rules(frame: pl.DataFrame, header: RunHeader) -> list[Rule]:
    """The rules for each row of `columns.read_run`, with the columns of `treatments.known`."""
    return [*_of_names(), *_of_figures(frame), *_of_times(header), *_of_writers(header)]


def _of_names() -> list[Rule]:
    kept, baseline = pl.col("outcome") == "kept", pl.col("role") == "baseline"
    own = pl.concat_str(
        [pl.col(name).cast(pl.String) for name in ("case", "block", "pair", "arm", "attempt")],
        separator="/",
    )
    counts = ("block", "position", "attempt")
    return [
        Rule("key", pl.col("key") != own, "CASE/BLOCK/PAIR/ARM/ATTEMPT of its own fields"),
        *(
            Rule(name, ~pl.col(name).is_between(0, _MOST_RUNS), "a whole number from 0")
            for name in counts
        ),
        Rule("pair", pl.col("pair").abs() > _MOST_RUNS, "a number of a pair"),
        Rule("warmup", pl.col("warmup") != (pl.col("pair") < 0), "true if 'pair' is below 0"),
        Rule("role", pl.col("warmup") & ~baseline, "'baseline' in a warm-up"),
        Rule("reason", pl.col("reason").is_null() != kept, "a text if the run was not accepted"),
        Rule("nodes", pl.col("nodes").cast(pl.String) == "", "at least one node"),
    ]


def _of_figures(frame: pl.DataFrame) -> list[Rule]:
    """Every figure is finite and not negative; `is_between` is false for NaN."""
    figures = [name for name, type_ in frame.schema.items() if type_ == pl.Float64]
    required = f"0, or a number from {_LEAST:.0e} to {MOST:.0e}"
    return [
        *(
            Rule(
                name,
                ~(pl.col(name).is_between(_LEAST, MOST) | (pl.col(name) == 0)),
                required,
            )
            for name in figures
        ),
        Rule("fom", pl.col("fom") == 0, "above 0"),
        Rule("writer_figures", ~pl.col("writer_figures"), "finite, and not negative"),
    ]


def _of_times(header: RunHeader) -> list[Rule]:
    kept = pl.col("outcome") == "kept"
    start_s, end_s = pl.col("start_s"), pl.col("start_s") + pl.col("elapsed_s")
    found = [
        Rule("elapsed_s", kept & (pl.col("elapsed_s") == 0), "above 0 if the run was accepted"),
        Rule(
            "start_s",
            start_s < header.started_s - _CLOCKS_S,
            f"after the run's start, {header.started_s!r}",
        ),
    ]
    if header.finished_s is not None:
        late = end_s > header.finished_s + _CLOCKS_S
        found.append(Rule("start_s", late, f"before the run's end, {header.finished_s!r}"))
    return found


def _of_writers(header: RunHeader) -> list[Rule]:
    """What each arm requires of its writers, judged again from what is stored of them."""
    kept, role = pl.col("outcome") == "kept", pl.col("role")
    silent, control = role.is_in(["baseline", "floor"]), kept & (role == "control")
    scheduled = pl.col("scheduled")
    effect = kept & (role == "effect")
    continuous, short = effect & ~scheduled, effect & scheduled
    share = header.asked.min_share if header.asked else 0.0
    writers, at_once = pl.col("writers"), pl.col("timetable")
    writing = effect & (writers > 0)
    return [
        Rule("writers", silent & (writers > 0), "0: the arm is silent"),
        Rule("writers", control & (writers == 0), "at least the control"),
        Rule("writer_rate_b_s", control & (pl.col("writer_rate_b_s") > 0), "0 of a control"),
        Rule("message_b", control & (pl.col("message_b") > 0), "0 of a control"),
        Rule("timetable", ~scheduled & at_once.is_not_null(), "absent: the arm has none"),
        Rule("writers", continuous & (writers == 0), "at least 1 in an accepted run of the arm"),
        Rule("timetable", short & at_once.is_null(), "present: the arm follows one"),
        Rule("writers", short & (writers != at_once), "as many as the timetable has at a time"),
        Rule("writer_message_b", writing & (pl.col("writer_message_b") == 0), "above 0"),
        Rule("writer_rate_b_s", writing & (pl.col("writer_rate_b_s") == 0), "above 0"),
        Rule("writer_rate_alone_b_s", writing & (pl.col("writer_rate_alone_b_s") == 0), "above 0"),
        Rule("writer_bytes_b", continuous & (pl.col("writer_bytes_b") == 0), "above 0"),
        Rule("writer_share", continuous & (pl.col("writer_share") == 0), "above 0"),
        Rule(
            "writer_share",
            continuous & (pl.col("writer_share") < share * (1 - _ROUNDING)),
            f"at least {share:g}: 'min_share' of the campaign",
        ),
        *(
            Rule(
                name,
                short & (pl.col(name) > pl.col("allowed_share") + _ROUNDING),
                "at most 'allowed_share' of the timetable",
            )
            for name in ("missing_share", "excess_share")
        ),
    ]
