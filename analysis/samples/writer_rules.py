"""Rules for each writer of a run: its rates, bytes, times, counts and proof must fit each other.

`nimc.node.evidence` makes these records; here is what follows from how it makes them.
"""

from __future__ import annotations

import polars as pl

from analysis.samples.faults import ROUNDING, Rows, Rule, mapped
from analysis.samples.pairs import levels
from nimc.records.arms import ARMS, arm_of
from nimc.records.plan import Demand
from nimc.records.run import RunHeader, facts_of
from nimc.records.sample import LIMITED_MESSAGES, LIMITED_SHARE, MANY, PROVEN_SHARE

#: `ROUNDING` of times of day, which have seven digits after the point; seconds.
_ROUNDING_S = 1e-6
#: By how much the rows of a writer that cover its whole window may overlap, as a share of it: the
#: times of rows are those of their arrival.
_OVERLAP = 0.25
#: Least share of the window that a writer's rows cover. One row may be late by `late_rows` (2)
#: intervals, and a row covers three quarters of its own (perftest pauses in the rest).
_LEAST_OBSERVED = 0.25
#: How far the readings of a counter, on the target's clock, may seem to lie within the run, seconds
#: and as a share of it.
_READING_S, _READING_SHARE = 0.1, 1e-3

_KEPT = pl.col("outcome") == "kept"
_CURRENT = pl.col("schema") > 2
_WRITES = pl.col("message_b") > 0
_CONTINUOUS = _WRITES & (pl.col("role") == "effect") & ~pl.col("scheduled")
_CONTROL = pl.col("role") == "control"


def judge_writers(rows: Rows, writers: pl.DataFrame, header: RunHeader) -> None:
    """Add the faults of the writers (`columns.Samples.writers`) of the samples in `rows`."""
    if not writers.height:
        return
    frame = writers.join(_of_samples(rows.frame), on="row", how="left", maintain_order="left")
    frame = frame.with_columns(number=pl.int_range(pl.len()).over("row"))
    rules = [*_of_kind(), *_of_rates(header), *_of_times(), *_of_proof()]
    for of, judged in ((frame, rules), (_targets(frame), _of_counts(header))):
        for rule in judged:
            broken = of.filter(rule.broken).select("row", "number", rule.field)
            for row, number, value in broken.iter_rows():
                rows.add(row, f"writers[{number}].{rule.field}", repr(value), rule.required)


def _of_samples(frame: pl.DataFrame) -> pl.DataFrame:
    """What the rules need of the sample: levels of factors, `control` of the arm.

    Also `around_s`, from the end of the run before to the start of the next one.
    """
    begun_s = pl.col("start_s") - pl.col("lead_in_s")
    return frame.select(
        *("row", "outcome", "role", "scheduled", "schema", "elapsed_s", "allowed_share"),
        level=mapped(frame, "factors", lambda text: _level(text, "rate")),
        burst_level=mapped(frame, "factors", lambda text: _level(text, "burst")),
        control=mapped(frame, "arm", lambda arm: arm_of(arm).control),
        around_s=pl.col("start_s").shift(-1).over("case", "block") - begun_s,
        targets=pl.col("nodes").cast(pl.String).str.count_matches(",", literal=True) + 1,
    )


def _level(factors: str, name: str) -> str | None:
    level = levels(factors).get(name)
    return level if isinstance(level, str) else None


def _of_kind() -> list[Rule]:
    """Injector, transport and direction are those of an arm and of two hosts."""
    controls = [arm.control for arm in ARMS.values() if arm.control]
    injector, transport = pl.col("injector"), pl.col("transport")
    apart = (pl.col("origin") != pl.col("target")) & (pl.col("target") != MANY)
    effect = pl.col("role") == "effect"
    reads, both = injector.str.ends_with("_read"), injector.str.ends_with("_both")
    kind = pl.when(reads).then(pl.lit("read")).when(both).then(pl.lit("both"))
    ucx = _CURRENT & _WRITES & injector.str.starts_with("ucx") & (pl.col("target") != MANY)
    shared = transport == "shared memory"
    return [
        Rule("injector", effect & injector.is_in(controls), "one that writes"),
        Rule("injector", injector != pl.col("control"), "the control that the arm is named after"),
        Rule("transport", (transport == "none") == _WRITES, "'none' of a control, and only of it"),
        Rule("transport", shared & apart, "one between two hosts"),
        Rule("transport", ucx & ~apart & ~shared, "'shared memory' of ucx on one host"),
        Rule("direction", pl.col("direction") != kind.otherwise(pl.lit("write")), "the injector's"),
    ]


def _of_rates(header: RunHeader) -> list[Rule]:
    asked, rate = pl.col("asked_b_s"), pl.col("rate_b_s")
    alone, least = pl.col("rate_alone_b_s"), pl.col("rate_min_b_s")
    message_b, elapsed_s = pl.col("message_b"), pl.col("elapsed_s")
    part = pl.col("level").str.ends_with("%")
    burst = pl.col("burst").struct
    # A window may have one burst more than its length asks for.
    period_s = burst.field("asked_length_s") + burst.field("asked_pause_s")
    more_b = LIMITED_MESSAGES * message_b + asked * period_s.fill_null(0.0)
    beyond = rate > LIMITED_SHARE * asked + more_b / elapsed_s
    limited = pl.col("limited_by").is_not_null() != asked.is_not_null()
    in_bursts = burst.field("asked_length_s").is_not_null()
    full, other = _WRITES & (pl.col("level") == "full"), pl.col("burst_level") != "none"
    found = [
        Rule("rate_min_b_s", least > rate * (1 + ROUNDING), "at most 'rate_b_s'"),
        Rule("limited_by", _CURRENT & _CONTINUOUS & limited, "given if 'asked_b_s' is, else null"),
        Rule("asked_b_s", full & asked.is_not_null() & ~in_bursts, "null at full rate"),
        Rule("asked_b_s", in_bursts & asked.is_null(), "the mean of bursts and pauses"),
        Rule("burst", _WRITES & (in_bursts != other), "that of the level of 'burst'"),
        Rule("asked_b_s", _WRITES & part & asked.is_null(), "that of the level of 'rate'"),
        Rule("rate_b_s", _KEPT & _CONTINUOUS & beyond, "about 'asked_b_s'"),
    ]
    if most := facts_of(header).site.proof.max_share:
        beyond = _KEPT & _CONTINUOUS & (least > most * alone * (1 + ROUNDING))
        required = f"at most {most:g} of 'rate_alone_b_s': 'max_share' of the machine"
        found.append(Rule("rate_min_b_s", beyond, required))
    return found


def _of_times() -> list[Rule]:
    """Bytes are those of the rate in the time that was observed of the run."""
    elapsed_s, observed = pl.col("elapsed_s"), pl.col("observed_share")
    rate, bytes_b = pl.col("rate_b_s"), pl.col("bytes_b")
    tolerance_s = _ROUNDING_S * (1 + elapsed_s)
    covered_s, hidden_s = observed * elapsed_s, (1 - observed) * elapsed_s
    most_s = covered_s + pl.when(observed < 1).then(0.0).otherwise(_OVERLAP * elapsed_s)
    longest_s = (1 + pl.col("allowed_share").fill_null(0.0)) * elapsed_s
    beyond = observed.is_null() & (bytes_b > rate * (longest_s + tolerance_s))
    unseen = _CURRENT & _CONTINUOUS & _KEPT & observed.fill_null(0.0).lt(_LEAST_OBSERVED)
    gap_s = pl.when(~pl.col("scheduled")).then("unobserved_s")
    in_window = "'rate_b_s' in the observed share of 'elapsed_s'"
    rest = "at most the rest of 'observed_share'"
    seen = f"at least {_LEAST_OBSERVED:g} of an accepted run"
    above_0 = "above 0, since the whole window was not observed"
    return [
        Rule("bytes_b", _WRITES & (bytes_b < rate * (covered_s - tolerance_s)), in_window),
        Rule("bytes_b", _WRITES & (bytes_b > rate * (most_s + tolerance_s)), in_window),
        Rule("bytes_b", _WRITES & beyond, "at most 'rate_b_s' in 'elapsed_s'"),
        Rule("observed_share", unseen, seen),
        Rule("unobserved_s", gap_s > hidden_s + tolerance_s, rest),
        Rule("unobserved_s", (gap_s == 0) & (hidden_s > tolerance_s), above_0),
        Rule("cpu_share", _KEPT & _CONTROL & (pl.col("cpu_share") <= 0), "above 0 of a control"),
        Rule("cpu_share", _WRITES & pl.col("cpu_share").is_not_null(), "null of a writer"),
    ]


def _of_proof() -> list[Rule]:
    """A proof has its evidence, and evidence its proof."""
    proof, share = pl.col("proof"), pl.col("overwritten_share")
    counted = pl.col("counted_b").is_not_null()
    current = _CURRENT & _WRITES
    seen = share.fill_null(0.0) >= PROVEN_SHARE
    counted_s = pl.col("counted_s")
    least_s = pl.col("elapsed_s") * (1 - _READING_SHARE) - _READING_S
    most_s = pl.col("around_s") + _READING_S
    if_counted = "'device' if a device counted ('counted_b'), and only then"
    from_share = f"'memory' from an 'overwritten_share' of {PROVEN_SHARE:g} on"
    return [
        Rule("proof", current & proof.is_null(), "device, memory or unproven"),
        Rule("proof", ~_WRITES & proof.is_not_null(), "null of a control"),
        Rule("proof", current & (counted != (proof == "device")), if_counted),
        Rule("proof", current & (proof == "memory") & ~seen, from_share),
        Rule("proof", current & (proof == "unproven") & seen, "'memory', by 'overwritten_share'"),
        *(
            Rule(name, pl.col(name).is_not_null() != counted, "given if 'counted_b' is, else null")
            for name in ("counted_s", "counter")
        ),
        Rule("counted_s", _KEPT & (counted_s < least_s), "from before the run until after it"),
        Rule("counted_s", counted_s > most_s, "from the run before until the next run at most"),
    ]


def _targets(frame: pl.DataFrame) -> pl.DataFrame:
    """One row per run and target whose device counted: `claimed_b` and `most_b` of all writers."""
    observed = pl.col("observed_share").fill_null(1.0)
    whole = pl.when(observed > 0).then(observed).otherwise(1.0)
    return (
        frame.filter(pl.col("counted_b").is_not_null(), pl.col("outcome") == "kept")
        .group_by("row", "target", maintain_order=True)
        .agg(
            pl.col("number", "counted_b", "targets").first(),
            values=pl.col("counted_b").n_unique(),
            claimed_b=pl.col("bytes_b").sum(),
            most_b=(pl.col("bytes_b") / whole).sum(),
        )
    )


def _of_counts(header: RunHeader) -> list[Rule]:
    """Devices counted what their writers claim, as the conductor required."""
    share = facts_of(header).site.proof.counter_share or Demand.counter_share
    counted_b, claimed_b = pl.col("counted_b"), pl.col("claimed_b")
    least_b = (1 - share) * claimed_b * (1 - ROUNDING)
    most_b = (1 + share) * pl.col("most_b") * (1 + ROUNDING)
    alone = (pl.col("targets") == 1) & (claimed_b > 0)
    allowed = f"'bytes_b' of the target's writers, within {share:.0%}"
    return [
        Rule("counted_b", counted_b < least_b, allowed),
        Rule("counted_b", alone & (counted_b > most_b), allowed),
        Rule("counted_b", pl.col("values") > 1, "the same of all writers of a target"),
    ]
