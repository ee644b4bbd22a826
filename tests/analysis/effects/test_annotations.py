"""Tests notes that are added to results.

They are about references of a machine (20 GB/s and 2 s, with a tolerance of 10 %), the share of the
link that writers reach, differences in provenance, and proven memory contention.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import reframe.utility.sanity as sn
from reframe.core.exceptions import SanityError

from analysis.effects.annotations import (
    compare_with_references,
    name_contention,
    note_link_share,
    note_provenance_changes,
    reference_bounds,
)
from analysis.effects.estimate import results
from analysis.effects.result import Verdict
from analysis.samples.pairs import judge_samples
from tests.analysis.made_counters import counter_row, read_counters, write_rows
from tests.analysis.synthetic import (
    HOST,
    STREAM,
    at_rate,
    frame_of,
    header,
    on_hosts,
    result,
    samples,
)

REFERENCES = {"references": {"stream": 2e10, "melt": 2.0}, "reference_tolerance": 0.1}
HEADER = header(facts={"site": REFERENCES})
ROW = result(off_median=2e10, unit="B/s", better="higher", notes=["a caveat"])


@pytest.mark.parametrize(
    ("case", "unit", "off", "better", "slower"),
    [
        ("stream", "B/s", 1.83e10, "higher", False),  # 20 / 18.3 = 1.093
        ("stream", "B/s", 1.79e10, "higher", True),  # 0.895 of the reference
        ("melt", "s", 2.19, "lower", False),
        ("melt", "s", 2.21, "lower", True),
        ("other", "s", 99.0, "lower", False),
        ("melt", "s", None, "lower", False),
        # Lookups and zones per second, as XSBench, AMG and UMT report them.
        ("stream", "1/s", 1.79e10, "higher", True),
        ("stream", "1/s", 1.81e10, "higher", False),
        ("stream", "1/s", 2.3e10, "lower", True),
        ("stream", "1/s", 1.80e10, "lower", False),
    ],
)
def test_a_baseline_is_slower_if_it_misses_the_reference_by_more_than_the_tolerance(
    case, unit, off, better, slower
):
    row = replace(ROW, case=case, unit=unit, off_median=off, better=better)
    (compared,) = compare_with_references([row], HEADER)
    assert compared.slower_than_reference is slower
    assert compared.notes[-1] == "a caveat"


@pytest.mark.parametrize(("better", "off"), [("higher", 6.0), ("lower", 10.0)])
def test_a_baseline_that_misses_the_reference_by_just_the_tolerance_is_not_slower(better, off):
    """The tolerance is exactly a quarter of 8, so no figure is rounded."""
    head = header(facts={"site": {"references": {"stream": 8.0}, "reference_tolerance": 0.25}})
    row = replace(ROW, case="stream", off_median=off, better=better)
    assert not compare_with_references([row], head)[0].slower_than_reference


def test_a_machine_without_references_is_never_slower():
    (compared,) = compare_with_references([ROW], replace(HEADER, facts={}))
    assert compared == ROW


def test_levels_other_than_the_first_have_no_reference():
    row = replace(ROW, arm="on@reserved_cores=1", baseline="off@reserved_cores=1", off_median=1e9)
    (compared,) = compare_with_references([row], HEADER)
    assert compared == row


@pytest.mark.parametrize(
    ("better", "accepted", "refused"),
    [("lower", (1.0, 109.0), (111.0, 1000.0)), ("higher", (91.0, 1000.0), (89.0, 1.0))],
)
def test_reframe_accepts_and_refuses_figures_by_the_bounds(better, accepted, refused):
    # ReFrame itself compares these figures with a reference of 100 and a tolerance of a tenth.
    for value in accepted:
        assert sn.evaluate(sn.assert_reference(value, 100.0, *reference_bounds(better, 0.1)))
    for value in refused:
        with pytest.raises(SanityError):
            sn.evaluate(sn.assert_reference(value, 100.0, *reference_bounds(better, 0.1)))


# The share of the link's rate that writers reach without the application.


def runs_with_rate_alone(rate_b_s, transport="InfiniBand", **changes):
    """Return runs whose writer reaches this rate without the application."""
    runs = samples(replace(STREAM, transport=transport), pairs=6)
    changes = {"rate_alone_b_s": rate_b_s, **changes}
    return judge_samples(frame_of([at_rate(one, rate_b_s, **changes) for one in runs]))


@pytest.mark.parametrize(
    ("rate_b_s", "link_b_s", "changes", "notes"),
    [
        (20e9, 25e9, {}, ["writers alone reached 80 % of the link's rate, 25.00 GB/s"]),
        (
            10e9,
            25e9,
            {},
            ["less than full rate: writers alone reached only 40 % of the link's rate, 25.00 GB/s"],
        ),
        (
            10e9,
            None,
            {},
            ["the link's rate is not known: `full` is what the writers reached alone"],
        ),
        # Throttled writers and emulated writes get no note.
        (10e9, 25e9, {"asked_b_s": 10e9}, []),
        (10e9, 25e9, {"transport": "soft-RoCE"}, []),
    ],
)
def test_writers_at_full_rate_say_which_share_of_the_link_they_reach(
    rate_b_s, link_b_s, changes, notes
):
    facts = {"site": {"nic": {"link_rate_b_s": link_b_s}} if link_b_s else {}}
    runs = runs_with_rate_alone(rate_b_s, **changes)
    (row,) = note_link_share([result(case="stream")], runs, header(facts=facts))
    assert row.notes == notes


@pytest.mark.parametrize("ends", [("n1 a/1", "n2 a/1"), ("n1 a/1", "n1 b/1")])
def test_each_device_of_a_target_has_a_link_of_its_own(ends):
    """Each of two writers, to two nodes or to two devices, reaches 20 of its link's 25 GB/s."""
    runs = samples(replace(STREAM, transport="InfiniBand"), pairs=6)
    targets = list(dict.fromkeys(end.split()[0] for end in ends))
    placed_runs = []
    for run in runs:
        placed = on_hosts(at_rate(run, 20e9, rate_alone_b_s=20e9), *targets)
        writers = [
            replace(writer, target=target, counter=f"rdma:{device}")
            for writer in placed.writers
            for target, device in map(str.split, ends)
        ]
        placed_runs.append(replace(placed, writers=writers))
    head = header(facts={"site": {"nic": {"link_rate_b_s": 25e9}}})
    (row,) = note_link_share([result(case="stream")], judge_samples(frame_of(placed_runs)), head)
    assert row.notes == ["writers alone reached 80 % of the link's rate, 25.00 GB/s"]


# A note names facts in the provenance that differ between blocks of a case.


_NODE = {
    "cpu_model": "Example 8-Core",
    "kernel": "6.1",
    "governor": "performance",
    "rdma": [{"name": "mlx5_0", "firmware": "20.31"}],
}
_PROGRAM = {"name": "./stream", "path": "/logs/0/stream", "sha256": "aa"}
_FIRST = {
    "commit": "abc",
    "reframe": "4",
    "nodes": {"a": _NODE},
    "clock_offsets_s": {"a": 1e-6},
    "program": _PROGRAM,
    "modules": ["gcc/13"],
}
_NEWER = [{"name": "mlx5_0", "firmware": "20.32"}]


def _node(**changes: object) -> dict[str, Any]:
    """Return changes of a block's provenance: it ran on node b, which has other facts."""
    return {"nodes": {"b": {**_NODE, **changes}}}


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({}, ""),
        (_node() | {"clock_offsets_s": {"b": 2e-6}}, ""),
        ({"nodes": {"a": _NODE, "b": _NODE}}, ""),
        (_node(kernel="6.6"), "kernel"),
        (_node(cpu_model="Other", governor="powersave"), "CPU model, governor"),
        (_node(rdma=_NEWER), "NIC firmware"),
        # One of two nodes of the block has another kernel.
        ({"nodes": {"a": _NODE, **_node(kernel="6.6")["nodes"]}}, "kernel"),
        # A fact that only one block has, and a record with another format, cannot be compared.
        (_node(microcode="0x2"), ""),
        ({"nodes": {"a": 1, "b": {"rdma": 3}}}, ""),
        ({"commit": "def"}, "commit"),
        # Each block compiles the program in its own folder; its content is compared.
        ({"program": {**_PROGRAM, "path": "/logs/1/stream"}}, ""),
        ({"program": {**_PROGRAM, "sha256": "bb"}}, "program"),
        ({"modules": ["gcc/14"]}, "modules"),
    ],
)
def test_a_note_names_facts_that_differ_between_blocks_of_a_case(
    changes: dict[str, Any], differs: str
) -> None:
    """Samples of provenance 0 and 1 count. Provenance 2 is ignored: its sample was rejected."""
    samples = pl.DataFrame(
        {"case": "stream", "provenance": ["0", "1", "2"], "status": ["counts"] * 2 + ["rejected"]}
    )
    records = {"0": _FIRST, "1": {**_FIRST, **changes}, "2": {**_FIRST, "commit": "other"}}
    rows = [result(notes=["a caveat"]), result(case="lammps")]
    stream, lammps = note_provenance_changes(rows, samples, records)
    notes = [f"provenance differs between blocks: {differs}"] if differs else []
    assert (stream.notes, lammps.notes) == ([*notes, "a caveat"], [])
    # If a record of provenance is lost, nothing is compared with it.
    del records["1"]
    assert note_provenance_changes(rows, samples, records) == rows


@pytest.mark.parametrize(
    ("proofs", "counted_share", "footprint_b", "llc_b", "verdict"),
    [
        # Messages have 64 KiB; older samples have no footprint.
        (["device"], None, None, 32 << 10, "memory contention"),
        (["memory", "device"], None, None, 32 << 10, "memory contention"),
        # Messages may stay in a cache.
        (["device"], None, None, 64 << 10, "slower under RDMA writes"),
        (["device"], None, None, None, "slower under RDMA writes"),
        # More than a tenth of the written bytes must reach memory.
        (["device"], 0.11, None, 64 << 10, "memory contention"),
        (["device"], 0.09, None, 64 << 10, "slower under RDMA writes"),
        (["unproven", "device"], 0.5, None, 32 << 10, "slower under RDMA writes"),
        (["device"], None, 96 << 10, 64 << 10, "memory contention"),
        (["device"], None, 96 << 10, 96 << 10, "slower under RDMA writes"),
    ],
)
def test_contention_is_named_if_proven_writes_reached_memory(
    proofs: list[str],
    counted_share: float | None,
    footprint_b: int | None,
    llc_b: int | None,
    verdict: str,
    tmp_path: Path,
) -> None:
    """In each run with writes, 1 GB/s are written for 2 s.

    In a run without writes, the application itself writes 5e6 lines of 64 B into memory.
    """
    case = replace(STREAM, effects={"on": 1.35, "aa": 1.0}, transport="InfiniBand", origin="far")
    runs = []
    for number, sample in enumerate(samples(case, pairs=6)):
        timed = replace(sample, elapsed_s=2.0, factors={"tool": "perf_stat:dram"})
        proof = proofs[number % len(proofs)]
        runs.append(at_rate(timed, 1e9, proof=proof, footprint_b=footprint_b))
    lines = {"on": 5e6 + (counted_share or 0) * 2e9 / 64}
    counter, counted = "unc_m_cas_count.wr", runs if counted_share is not None else []
    rows = [
        counter_row(run.key, counter, lines.get(run.arm, 5e6), tool="perf_stat:dram")
        for run in counted
    ]
    write_rows(tmp_path, case.name, rows)
    frame = judge_samples(frame_of(runs))
    # The cache of the origin does not count: it is smaller than a message, or larger.
    caches_b = {"far": 1024 if llc_b is None else 1 << 30, HOST: llc_b}
    hosts = {"sha": {"nodes": {host: {"llc_total_b": b} for host, b in caches_b.items()}}}
    effects = [row for row in results(frame) if row.role == "effect"]
    assert [row.verdict for row in effects] == ["slower under RDMA writes"]
    (named,) = name_contention(effects, frame, read_counters(tmp_path, frame), hosts)
    assert named.verdict == verdict
    # The same holds for the row of a treatment at a level of `tool`.
    under_tool = replace(effects[0], arm="on@tool=perf_stat:dram")
    tool_frame = frame.with_columns(
        pl.col("arm", "baseline").cast(pl.String) + "@tool=perf_stat:dram"
    )
    counters = read_counters(tmp_path, tool_frame)
    (named,) = name_contention([under_tool], tool_frame, counters, hosts)
    assert named.verdict == verdict
    # An effect of emulated writes, or one without a loss, never gets this verdict.
    for other in (Verdict.EMULATED, Verdict.INCONCLUSIVE):
        row = replace(effects[0], verdict=other)
        assert name_contention([row], frame, read_counters(tmp_path, frame), hosts) == [row]


def verdict_with_scatter(
    tmp_path: Path, share: float, scatter: float, seed: int, pairs: int
) -> str:
    """The verdict if the application writes 3e13 B into memory in each run of 300 s.

    Its writes scatter by `scatter`. Writers write 3e9 B/s, 9e11 B in a run, of which `share`
    reaches memory.
    """
    case = replace(STREAM, effects={"on": 1.35, "aa": 1.0}, transport="InfiniBand", origin="far")
    tool = "perf_stat:dram"
    timed = [
        replace(sample, elapsed_s=300.0, factors={"tool": tool})
        for sample in samples(case, pairs=pairs)
    ]
    frame = judge_samples(frame_of([at_rate(run, 3e9, proof="device") for run in timed]))
    rng = np.random.default_rng(seed)
    rows = []
    for run in timed:
        application_b = 3e13 * np.exp(rng.normal(0, scatter))
        lines = (application_b + share * 9e11 * (run.arm == "on")) / 64
        rows.append(counter_row(run.key, "unc_m_cas_count.wr", lines, tool=tool))
    write_rows(tmp_path, case.name, rows)
    row = result(case=case.name, verdict=Verdict.SLOWER)
    (named,) = name_contention([row], frame, read_counters(tmp_path, frame), {})
    return named.verdict


def test_scatter_of_the_applications_own_writes_is_not_contention(tmp_path: Path) -> None:
    # One percent of the application's bytes is a third of the bytes that writers write.
    verdicts = [verdict_with_scatter(tmp_path, 0.0, 0.01, seed, 12) for seed in range(20)]
    assert verdicts.count(Verdict.CONTENTION) <= 1


@pytest.mark.parametrize(
    ("pairs", "verdict"),
    [(12, Verdict.CONTENTION), (5, Verdict.SLOWER)],  # six are the fewest
)
def test_half_of_the_writes_in_memory_is_contention_with_enough_pairs(
    pairs: int, verdict: str, tmp_path: Path
) -> None:
    assert verdict_with_scatter(tmp_path, 0.5, 0.002, 1, pairs) == verdict
