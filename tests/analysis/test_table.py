from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from analysis.effects.contrasts import Contrast
from analysis.effects.estimate import Result, results
from analysis.report.data import load_run
from analysis.samples.columns import read_run
from nimc.cli.table import results_table
from tests.analysis.synthetic import LAMMPS, STREAM, reject, remedies, samples, write_run


def _printed(rows: list[Result], contrasts: Sequence[Contrast] = ()) -> str:
    return click.unstyle(results_table(rows, contrasts)) + "\n"


def _rows(tmp_path: Path, failures: int = 1) -> list[Result]:
    found = samples(STREAM, blocks=2, pairs=6) + samples(
        replace(LAMMPS, name="lammps@8192", effects={"on": 1.0, "aa": 1.0}, noise=0.002),
        pairs=12,
        seed=2,
    )
    on = [i for i, sample in enumerate(found) if sample.arm == "on"]
    for i in on[:failures]:
        found[i] = reject(found[i], "injector_died", f"writer 0 ended: {'x' * i}")
    return results(read_run(write_run(tmp_path / "run", found)).frame)


def test_fits_eighty_columns_and_holds_every_figure(tmp_path: Path) -> None:
    rows = _rows(tmp_path)
    text = _printed(rows)
    assert max(map(len, text.splitlines())) <= 80
    on = rows[2]
    assert (on.case, on.arm) == ("stream", "on")
    assert on.slowdown is not None
    for figure in (
        f"{on.slowdown:.3f}",
        f"{on.slowdown_low:.3f}-{on.slowdown_high:.3f}",
        f"{on.noise_floor_low:.3f}-{on.noise_floor_high:.3f}",
        f"{on.control_low:.3f}-{on.control_high:.3f}",
        "8.10 GB/s",
        "GB/s",
    ):
        assert figure in text
    assert text.count("…") == 0
    lines = text.splitlines()
    assert lines[0].split() == ["written"]
    assert lines[1].split() == ["baseline", "alone,"]
    assert lines[2].split()[-2:] == ["control", "during"]
    at = next(index for index, line in enumerate(lines) if line.startswith("stream"))
    assert lines[at + 2] == "  slower under emulated writes; 11 pairs, 1 rejected"
    assert "stream: 1 x injector_died: writer 0 ended: x" in text
    assert "emulation, not RDMA hardware" in " ".join(text.split())


def test_slow_writes_and_long_levels_fit_eighty_columns(tmp_path: Path) -> None:
    on = replace(
        _rows(tmp_path)[2],
        arm="on@reserved_cores=1,rate=25%",
        off_median=0.4925e9,
        writer_rate_alone_b_s=6.24e6,
        writer_rate_b_s=604e6,
    )
    text = _printed([on])
    assert max(map(len, text.splitlines())) <= 80
    assert text.split().count("MB/s") == 3  # the figure of merit's unit as well
    assert "6.24 MB/s" in text
    assert "604 MB/s" in text


def test_controls_are_columns_and_no_rows_of_their_own(tmp_path: Path) -> None:
    text = _printed(_rows(tmp_path))
    assert "spin" not in text
    assert "no effect on the typical run: less than 2 %" in text


def test_a_case_of_controls_alone_still_shows(tmp_path: Path) -> None:
    found = samples(replace(STREAM, effects={"aa": 1.0}), pairs=6)
    text = _printed(results(read_run(write_run(tmp_path / "run", found)).frame))
    assert "stream aa" in text


def test_levels_are_shown_and_what_they_cost(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "run", samples(remedies(), pairs=6)))
    text = _printed(run.results, contrasts=run.contrasts)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in text
    assert sum(line.startswith("rate 25%") for line in lines) == 2
    assert sum(line.startswith("cores 1") for line in lines) == 3
    price = next(line for line in lines if "off@cores=1 " in line and " off " in line)
    assert price.split() == ["melt", "off@cores=1", "off", "1.100", "6"]
    gain = next(line for line in lines if "on@cores=1 " in line and " on " in line)
    assert gain.split() == ["melt", "on@cores=1", "on", "1.653", "6"]  # 2 / 1.21
    header = next(line for line in lines if " price " in line)
    assert price.index("1.100") + 5 <= header.index(" gain") < gain.index("1.653") + 5
    assert "price" not in _printed(run.results)


def test_many_reasons_are_cut_short(tmp_path: Path) -> None:
    text = _printed(_rows(tmp_path, failures=11))
    assert text.count("injector_died") == 8
    assert "and 3 more reasons" in text


def test_no_rows_say_so() -> None:
    assert _printed([]) == "no result: only the arm 'off' was run\n"
