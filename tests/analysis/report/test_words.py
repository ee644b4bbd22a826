from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.columns import read_run
from analysis.estimate import results
from analysis.report.words import breakable, facts, ranges, sentence, utc
from tests.analysis.synthetic import LAMMPS, STREAM, samples, write_run


def test_a_sentence_holds_effect_interval_and_what_it_means(tmp_path: Path) -> None:
    row = results(read_run(write_run(tmp_path / "run", samples(STREAM))).frame)[0]
    assert row.slowdown is not None
    assert row.slowdown_low is not None
    text = sentence(row)
    assert text.startswith(f"The same work took {(row.slowdown - 1) * 100:.1f} % more time while 7")
    assert f"interval: {(row.slowdown_low - 1) * 100:.1f} % more to" in text
    assert "10 pairs" in text
    assert text.endswith("noise floor and, where one is needed, the control.")


def test_too_few_pairs_name_no_effect(tmp_path: Path) -> None:
    row = results(read_run(write_run(tmp_path / "run", samples(LAMMPS, pairs=5))).frame)[0]
    assert sentence(row) == "No estimate: 5 pairs, at least 6 needed."


def test_no_effect_says_what_the_interval_cannot_rule_out(tmp_path: Path) -> None:
    found = samples(replace(LAMMPS, effects={"on": 1.0, "aa": 1.0}))
    row = results(read_run(write_run(tmp_path / "run", found)).frame)[0]
    assert row.verdict == "no effect above the noise floor"
    assert row.slowdown_high is not None
    left = f"Up to {(row.slowdown_high - 1) * 100:.1f} % more time cannot be ruled out."
    assert sentence(row).endswith(left)


@pytest.mark.parametrize(
    ("record", "label", "text"),
    [
        ({"memory_b": 24 << 30}, "memory", "24 GiB"),
        ({"cache": {"size_b": 1536}}, "cache size", "1.5 KiB"),
        ({"link_rate_b_s": 12.5e9}, "link rate", "12.50 GB/s"),
        ({"clock_hz": 2.45e9}, "clock", "2.45 GHz"),
        ({"rate_b_s": float("nan")}, "rate", "nan B/s"),
        ({"cpus": [0, 1, 2, 5, 7, 8]}, "cpus", "0-2, 5, 7-8"),
        ({"cpu": {"clock_hz": None}, "nic": None}, "not known", "cpu clock hz, nic"),
        ({"rdma_devices": []}, "rdma devices", "none"),
        ({"clock_offsets_s": {"vm": 3.4570693e-06}}, "clock offsets vm", "3.457e-06 s"),
        ({"smt": False}, "smt", "no"),
        ({"caches": [{"level": 3}]}, "caches 0 level", "3"),
        ({"node_mtti_s": 5 * 365.25 * 86400}, "node mtti", "5 y"),
        ({"offset_s": "of text"}, "offset s", "of text"),
    ],
)
def test_facts_read_their_units_from_their_keys(
    record: dict[str, object], label: str, text: str
) -> None:
    assert facts(record) == [(label, text)]


def test_names_break_before_their_levels_and_are_escaped() -> None:
    assert breakable("on@rate=25%,tool=<b>") == "on<wbr>@rate=25%,<wbr>tool=&lt;b&gt;"
    assert breakable("spin") == "spin"


def test_ranges_join_integers_alone() -> None:
    assert ranges(["a", "b", 1, 2, True]) == "a, b, 1-2, True"


def test_times_are_in_utc() -> None:
    assert utc(0) == "1970-01-01 00:00 UTC"
    assert utc(None) == "not finished"
    assert utc(1e300) == "1e+300 is not a date"
    assert utc(float("nan")) == "nan is not a date"
