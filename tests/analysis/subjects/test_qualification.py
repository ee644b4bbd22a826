"""Faults that were planted in made runs are named by the claims they break, and no others."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analysis.questions.question import answer, sentences_of
from analysis.report.data import load_run
from analysis.subjects.qualification import CLAIMS, QUALIFICATION, Evidence, claimed, qualified
from records.groups import grouped
from records.sample import Sample, WriterRecord
from tests.analysis.subjects.made_qualification import ALONE_B_S, ORIGIN, Fault, made_run, rejected
from tests.analysis.synthetic import HOST

COUNTS = ["counter of writes", "counter of reads"]
_REFUTED = rejected(f"{HOST} counted 1 MB, but the writers claim 2 MB; allowed difference: 20%")


def judged(run: Path) -> pl.DataFrame:
    return answer(QUALIFICATION, load_run(run, force=True))


def states(claims: pl.DataFrame, injector: str = "") -> dict[str, list[str]]:
    """State -> the claims of the machine, or of an injector."""
    return grouped(claims.filter(injector=injector).select("word", "claim").iter_rows())


def test_a_clean_run_allows_all_that_it_measured(tmp_path: Path) -> None:
    claims = judged(made_run(tmp_path / "run"))
    assert states(claims) == {"allowed": [claim.name for claim in CLAIMS]}
    assert states(claims, "ucx") == {
        "allowed": [claim.name for claim in CLAIMS if claim.by_injector]
    }
    assert qualified(claims)


def condition(**values: float) -> Callable[[Sample], Sample]:
    def change(sample: Sample) -> Sample:
        hit = sample.pair % 3 == 0
        node = sample.conditions[0]
        return replace(sample, conditions=[replace(node, **values) if hit else node])

    return change


def unlimited(sample: Sample, writer: WriterRecord) -> WriterRecord:
    """At full rate, whatever was asked."""
    rates = ("rate_alone_b_s", "rate_before_b_s", "rate_b_s", "rate_min_b_s")
    full = dict.fromkeys(rates, ALONE_B_S) | {"bytes_b": ALONE_B_S * sample.elapsed_s}
    return replace(writer, **full) if writer.asked_b_s else writer


PLANTED: dict[str, tuple[Fault, list[str]]] = {
    "unit twice as large": (Fault(counts=lambda _: 2.0, sample=_REFUTED), COUNTS),
    "20 % too many": (Fault(counts=lambda _: 1.2), COUNTS),
    "dead": (Fault(counts=lambda _: 0.0, sample=_REFUTED), [*COUNTS, "foreign writer"]),
    "a quarter, or of another port": (Fault(counts=lambda _: 0.25, sample=_REFUTED), COUNTS),
    "set back in some runs": (Fault(counts=lambda of: 1.005 if of.pair % 3 else None), COUNTS),
    "stops in some runs": (
        Fault(counts=lambda of: 0.5 if of.pair == 2 else 1.005, sample=_REFUTED),
        COUNTS,
    ),
    "rate limit does nothing": (Fault(writer=unlimited, sample=_REFUTED), ["throttled"]),
    "more than the link": (
        Fault(site={"nic": {"link_rate_b_s": 6.25e9, "processing": "offload"}}),
        ["full rate"],
    ),
    "NUMA nodes exchanged": (Fault(far=1.1), ["NUMA of device"]),
    "memory of cores exchanged": (Fault(far_memory=1.4), ["NUMA of cores"]),
    "clock an hour off": (Fault(offsets_s={HOST: 0.0, ORIGIN: -3600.0}), ["clocks"]),
    "foreign writer": (
        Fault(foreign_b_s=1e9, sample=rejected("although nothing wrote", "floor")),
        ["foreign writer"],
    ),
    "writer stops": (
        Fault(sample=rejected("writer 0 wrote nothing for 1.5 s (rdma:mlx5_0/1)", every=3)),
        ["held"],
    ),
    "busy node": (Fault(sample=condition(foreign_cpus=1.1)), ["foreign load"]),
    "steal": (Fault(sample=condition(steal_share=0.1)), ["steal"]),
    "throttled cores": (Fault(sample=condition(frequency_hz=2e9)), ["frequency"]),
    "drift": (Fault(aa=1.07), ["repeats"]),
}


@pytest.mark.parametrize(("fault", "broken"), PLANTED.values(), ids=PLANTED)
def test_a_planted_fault_is_named_by_its_claim(
    tmp_path: Path, fault: Fault, broken: list[str]
) -> None:
    claims = judged(made_run(tmp_path / "run", fault))
    assert states(claims)["refused"] == broken
    assert not qualified(claims)
    assert sentences_of(QUALIFICATION, claims)[0] == "The machine is not qualified."


def test_headers_limit_what_may_be_claimed_of_counters(tmp_path: Path) -> None:
    claims = judged(made_run(tmp_path / "run", Fault(counts=lambda _: 1.05)))
    assert states(claims)["caveat"] == COUNTS
    assert qualified(claims)


# Claims at their limits, from few records by hand. The link has 10 GB/s.


def evidence(offsets_s: list[float] | None = None, **rows: list[dict[str, Any]]) -> Evidence:
    frames = {name: pl.DataFrame(rows.get(name)) for name in ("writers", "conditions")}
    runs = pl.DataFrame(rows.get("runs", [{"role": "effect"}]))
    frames = {name: frame.with_columns(case=pl.lit("m")) for name, frame in frames.items()}
    runs = runs.with_columns(case=pl.lit("m"), transport=pl.lit("InfiniBand"))
    return Evidence(runs, **frames, link_b_s=1e10, offsets_s=offsets_s or [])


def of(*writers: dict[str, Any]) -> Evidence:
    return evidence(writers=list(writers))


def wrote(share: float | None = None, **changes: object) -> dict[str, Any]:
    """A writer that reaches so much of the link, or of 1 GB/s that was asked."""
    common = {"row": 1, "direction": "write", "rate": "full", "limited_by": None}
    if share is None:
        return common | changes
    return {**common, "asked_b_s": None, "rate_alone_b_s": share * 1e10, **changes}


def limited(before: float | None, alone: float = 5.0, **changes: object) -> dict[str, Any]:
    rates = {"rate_before_b_s": before and before * 1e9, "rate_alone_b_s": alone * 1e9}
    asked = {"asked_b_s": 1e9, "limited_by": "hardware", "rate": "10%"}
    return wrote(**rates, **(asked | changes))


def arriving(*silent: float, under: float | None = None, reached: float = 1e9) -> Evidence:
    """What arrives in runs without writers, and in one with a writer that reaches this rate."""
    rows = [{"row": 0, "role": "floor", "received_b_s": rate} for rate in silent]
    rows += [{"row": 1, "role": "effect", "received_b_s": under}] if under is not None else []
    return evidence(conditions=rows, writers=[wrote(0.1, rate_b_s=reached)])


def ended(number: int, *failed: tuple[str, str | None]) -> Evidence:
    """So many runs, of which some failed."""
    outcomes = [*failed, *[("kept", None)] * (number - len(failed))]
    runs = [{"role": "effect", "outcome": outcome, "reason": why} for outcome, why in outcomes]
    runs.append({"role": "floor", "outcome": "injector_died", "reason": "writer 1 stopped"})
    return evidence(runs=runs)


def on_a_node(name: str, *values: float) -> Evidence:
    return evidence(conditions=[{"node": "a", name: value} for value in values])


def count(share: float, of: float = 1.0, seconds: float = 1.0, **changes: object) -> dict[str, Any]:
    """A run of a second in which 1 GB was written, and counted over so many seconds."""
    run = {"row": 1, "target": "a", "injector": "mpi_put", "bytes_b": 1e9, "elapsed_s": 1.0}
    counted = {"counted_b": share * seconds * 1e9, "counted_s": seconds, "observed_share": of}
    return wrote(**(run | counted | changes))


STOPPED = ("rejected", "writer 12 stopped")
LIMITS: dict[str, list[tuple[Evidence, str]]] = {
    "full rate": [
        (of(wrote(0.81)), "allowed"),
        (of(wrote(0.79)), "caveat"),
        (of(wrote(1.019)), "allowed"),
        (of(wrote(1.03)), "refused"),
        (of(wrote(0.1), wrote(0.9), wrote(0.9)), "allowed"),  # the median
        (of(wrote(0.9, asked_b_s=1e9), wrote(0.9, direction="read")), "not shown"),
    ],
    "throttled": [
        (of(limited(1.049)), "allowed"),
        (of(limited(0.94)), "caveat"),
        (of(limited(0.84)), "refused"),
        (of(limited(None, 1.0), limited(None, 1.0)), "allowed"),
        (of(limited(1.0), limited(0.94, rate="5%")), "caveat"),  # the worst
        (of(limited(1.0), limited(0.84, direction="read")), "refused"),
        (of(limited(1.0, asked_b_s=0.0)), "not shown"),
    ],
    # Writers have 1 GB/s alone, of which 2 % may be foreign.
    "foreign writer": [
        (arriving(0.0, 2e7), "allowed"),
        (arriving(2.1e7, *[0.0] * 9), "caveat"),
        (arriving(2.1e7, *[0.0] * 8), "refused"),
        (arriving(0.0, under=1e9), "allowed"),
        (arriving(0.0, under=2e7), "refused"),  # not seen
        (arriving(0.0, under=2e7, reached=4e7), "allowed"),  # too slow to be seen
    ],
    "held": [
        (ended(10), "allowed"),
        (ended(10, STOPPED), "caveat"),
        (ended(19, STOPPED, ("injector_died", None)), "refused"),
        (ended(10, ("rejected", "the node was busy"), ("application_failed", None)), "allowed"),
        (ended(0), "not shown"),
    ],
    # Nodes are quiet in nine of ten runs.
    "steal": [
        (on_a_node("steal_share", *[0.02] * 10), "allowed"),
        (on_a_node("steal_share", 0.021, *[0.0] * 9), "caveat"),
        (on_a_node("steal_share", 0.021, *[0.0] * 8), "refused"),
    ],
    "foreign load": [(on_a_node("foreign_cpus", 0.25, 0.25, 0.25), "allowed")],
    "frequency": [
        (on_a_node("frequency_hz", 3e9, 3e9, 2.71e9), "allowed"),
        (on_a_node("frequency_hz", 3e9, 3e9, 2.69e9), "refused"),
    ],
    "clocks": [
        (evidence([0, 0.1]), "allowed"),
        (evidence([0, -0.11]), "caveat"),
        (evidence([-1, 0.05]), "caveat"),
        (evidence([0, 1.1]), "refused"),
        (evidence([5.0]), "not shown"),
    ],
    "counter of writes": [
        (of(count(1.0, seconds=2.0)), "allowed"),
        (of(count(0.981)), "allowed"),
        (of(count(1.019)), "allowed"),
        (of(count(0.979)), "caveat"),
        (of(count(1.11)), "caveat"),  # headers
        (of(count(1.13)), "refused"),
        # The rows cover 0.9 of the time: 1 / 0.9 was written.
        (of(count(1.11, 0.9)), "allowed"),
        # Nine of ten runs, and not all of nine.
        (of(*(count(1.0, row=at) for at in range(10)), count(2.0, row=10)), "allowed"),
        (of(*(count(1.0, row=at) for at in range(4)), count(2.0, row=10)), "refused"),
        (of(count(1.0), count(1.0, counted_b=None, row=2)), "refused"),  # stopped
        (of(count(1.0, counted_b=None)), "not shown"),
        (of(count(1.0, limited_by="software")), "not shown"),  # rows made of the counter
        (of(count(1.0, limited_by="agent")), "allowed"),
        # Two writers of one target share its counter.
        (of(count(2.0), count(2.0)), "allowed"),
        (of(count(2.0), count(2.0, target="b")), "refused"),
        (of(count(1.0, direction="read")), "not shown"),
    ],
}


@pytest.mark.parametrize(
    ("name", "of", "expected"), [(name, *row) for name, rows in LIMITS.items() for row in rows]
)
def test_a_claim_at_its_limits(name: str, of: Evidence, expected: str) -> None:
    rows = claimed(of, [claim for claim in CLAIMS if claim.name == name])
    (word,) = answer(replace(QUALIFICATION, rows=lambda _: rows), None)["word"]
    assert word == expected


def only_ucx(change: Callable[[Sample, WriterRecord], WriterRecord]) -> Fault:
    return Fault(writer=lambda of, writer: change(of, writer) if of.case == "ucx" else writer)


@pytest.mark.parametrize(
    ("fault", "claim", "expected"),
    [
        (only_ucx(unlimited), "throttled", ("refused", 1.0, False)),
        (
            only_ucx(lambda _, writer: replace(writer, transport="tcp")),
            *("full rate", ("refused", 0.12, True)),
        ),
        # 5 of 12.5 GB/s.
        (
            only_ucx(lambda _, writer: replace(writer, rate_alone_b_s=5e9)),
            *("full rate", ("caveat", 0.6, False)),
        ),
    ],
)
def test_another_injector_is_judged_by_its_own_runs(
    tmp_path: Path, fault: Fault, claim: str, expected: tuple[str, float, bool]
) -> None:
    claims = judged(made_run(tmp_path / "run", fault))
    (row,) = claims.filter(injector="ucx", claim=claim).to_dicts()
    assert (row["word"], round(row["away"], 2), row["emulated"]) == expected
    assert qualified(claims)


def test_emulated_writes_allow_no_claim_on_hardware(tmp_path: Path) -> None:
    def soft(_: Sample, writer: WriterRecord) -> WriterRecord:
        return replace(writer, transport="soft-RoCE")

    claims = judged(made_run(tmp_path / "run", Fault(writer=soft)))
    assert states(claims)["refused"] == [claim.name for claim in CLAIMS if claim.hardware]
    assert not qualified(claims)
