"""Tests Tables II and III made from a user's runs; all figures are worked out by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.questions.question import Question, answer, sentences_of
from analysis.subjects.paper import PAPER_NAMES, figure_3_rows, table_2_rows
from analysis.subjects.paper_tables import TABLE_2, TABLE_3
from records.sample import Sample
from tests.analysis.subjects.made_paper_tables import (
    OFF_B_S,
    OFF_S,
    ON_B_S,
    ON_S,
    load,
    runs,
    under,
)


def here(table: Question, tmp_path: Path, *groups: list[Sample]) -> list[dict[str, Any]]:
    """Return the rows of a table that were measured here, without published ones."""
    rows = answer(table, load(tmp_path, *groups)).to_dicts()
    return [row for row in rows if row["machine"].startswith("here")]


def test_times_are_means_of_the_first_ten(tmp_path: Path) -> None:
    (row,) = here(TABLE_3, tmp_path, runs("lammps", OFF_S, ON_S))
    assert (row["application"], row["n"]) == ("LAMMPS", 10)
    means = {"off_mean": 11.0, "on_mean": 22.0, "of_means": 2.0}
    assert {name: row[name] for name in means} == pytest.approx(means)
    assert (row["off_sd"], row["on_sd"]) == pytest.approx(((6 / 9) ** 0.5, (18 / 9) ** 0.5))
    # The paired estimate uses all eleven runs: 20/10, 24/12, ..., 21/10, 23/12, ... 198/99.
    assert row["slowdown"] == pytest.approx(2.0)


def test_table_two_has_harmonic_means_above_the_published_lines(tmp_path: Path) -> None:
    stream_runs = runs("stream", OFF_B_S, ON_B_S, "B/s")
    sized_runs = [replace(run, working_set_b=2.15e6) for run in stream_runs]
    own, *published = answer(TABLE_2, load(tmp_path, sized_runs)).to_dicts()
    assert own["machine"] == "here (2.15 MB a thread)"
    means = {"off_mean": 12e9, "on_mean": 6e9, "of_means": 2.0, "slowdown": 2.0, "n": 10}
    assert {name: own[name] for name in means} == pytest.approx(means)
    assert (own["off_sd"], own["on_sd"]) == pytest.approx((2.635e9, 1.318e9), rel=1e-3)
    assert len(published) == 11
    first = {"application": "STREAM", "machine": "Westmere-800, offload", "slowdown": None}
    first |= {"off_mean": 12.9e9, "on_mean": 9.7e9, "n": None}
    assert published[0] == {**published[0], **first}
    assert published[0]["of_means"] == pytest.approx(1.33, abs=0.001)


def test_table_three_has_all_published_lines_and_caveats(tmp_path: Path) -> None:
    # The figure is lookups per second: two thirds of the rate are 1.5 times the time.
    rate = runs("xsbench", [3e6] * 10, [2e6] * 10, "1/s", transport="InfiniBand", origin="other")
    time = runs("cns", [4.0] * 6, [5.0] * 6, transport="soft-RoCE")
    time = [replace(run, notes=["the grid is small"], working_set_b=3.09e6) for run in time]
    run = load(tmp_path, rate, time, runs("snap", [1.0] * 5, [2.0] * 5))
    table = answer(TABLE_3, run)
    rows = table.select("application", "machine", "of_means", "n").rows()
    machine = "Sandy Bridge-X2-onload, onload"
    assert [(name, system, n) for name, system, _, n in rows] == [
        ("CNS", "here (3.09 MB a rank)", 6),
        ("CNS", f"{machine} (about 4 MB a rank)", None),
        *((name, machine, None) for name in ("HPCCG", "LAMMPS", "LULESH", "SNAP")),
        ("XSBench", "here", 10),
        ("XSBench", machine, None),
    ]
    assert [row[2] for row in rows][:2] == pytest.approx([1.25, 8.89 / 8.75])
    assert [row[2] for row in rows][-2] == pytest.approx(1.5)
    texts = sentences_of(TABLE_3, table)
    assert "CNS: the grid is small" in texts
    assert "XSBench: a rate here, a run time in the paper; slowdowns are of run times" in texts
    assert answer(TABLE_2, run).is_empty()


def test_runs_unlike_those_of_the_paper_are_not_compared(tmp_path: Path) -> None:
    several = [replace(s, nodes=["a", "b"]) for s in runs("lammps", OFF_S, ON_S)]
    other = runs("minife", OFF_S, ON_S)
    short = under("daly", "snap")
    reads, slow_writes = (
        [
            replace(sample, writers=[replace(writer, **changes) for writer in sample.writers])
            for sample in runs(name, OFF_S, ON_S)
        ]
        for name, changes in {
            "cns": {"direction": "read"},
            # The rate may be the campaign's, which is no factor.
            "hpccg": {"asked_b_s": 4e9, "limited_by": "software"},
        }.items()
    )
    run = load(tmp_path, several, other, short, reads, slow_writes)
    assert len(run.results) == 10
    assert answer(TABLE_3, run).is_empty()


def test_a_level_of_the_application_is_compared_with_its_own_baseline(tmp_path: Path) -> None:
    plain = runs("lammps", OFF_S, ON_S)
    # With a reserved core, all runs take twice as long, and writes cost nothing.
    names = {"off": "off@reserved_cores=1", "on": "on@reserved_cores=1"}
    reserved = [
        replace(
            sample,
            arm=names[sample.arm],
            key=sample.key.replace(f"/{sample.arm}/", f"/{names[sample.arm]}/"),
            fom=2 * (OFF_S[sample.pair] if not sample.warmup else 99),
            baseline=None if sample.arm == "off" else names["off"],
            factors={"reserved_cores": 1},
        )
        for sample in plain
        if sample.arm in names
    ]
    rows = here(TABLE_3, tmp_path, plain, reserved)
    assert [(row["machine"], row["off_mean"], row["of_means"]) for row in rows] == [
        ("here", pytest.approx(11.0), pytest.approx(2.0)),
        ("here reserved_cores=1", pytest.approx(22.0), pytest.approx(1.0)),
    ]


def test_table_two_has_a_line_for_each_machine_and_memory_clock() -> None:
    lines = {line.machine: line for line in table_2_rows()}
    assert len(lines) == 11
    piledriver = lines["Piledriver-1866"]
    assert (piledriver.off, piledriver.on, piledriver.table) == (12.7, 5.6, "Table II")
    assert piledriver.slowdown == pytest.approx(12.7 / 5.6)
    # Kinds of network cards are from Table I.
    onload = [line.machine for line in table_2_rows() if line.nic == "onload"]
    assert onload == ["Piledriver-1600", "Piledriver-1866", "Sandy Bridge-X2-onload"]
    assert {line.nic for line in table_2_rows()} == {"onload", "offload"}


def test_figure_three_is_of_seven_workloads_on_one_machine() -> None:
    lines = figure_3_rows()
    assert list(lines) == list(PAPER_NAMES)
    assert " ".join(PAPER_NAMES.values()) == "STREAM CNS HPCCG LAMMPS LULESH SNAP XSBench"
    assert {line.machine for line in lines.values()} == {"Sandy Bridge-X2-onload"}
    # Slowdowns are rates of Table II (off/on) and times of Table III (on/off): 73.4/36.1,
    # 8.89/8.75, 6.07/4.08, ...
    slowdowns = [f"{line.slowdown:.3f}" for line in lines.values()]
    assert slowdowns == ["2.033", "1.016", "1.488", "2.099", "1.911", "1.883", "2.008"]
    assert (lines["lammps"].off, lines["lammps"].on) == (177.21, 372.04)
