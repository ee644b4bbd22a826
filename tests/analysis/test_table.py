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
    for figure in (
        f"{on.slowdown.value:.3f}",
        f"{on.slowdown.low:.3f}-{on.slowdown.high:.3f}",
        f"{on.noise_floor.low:.3f}-{on.noise_floor.high:.3f}",
        f"{on.control.low:.3f}-{on.control.high:.3f}",
        "8.10 GB/s",
        "slower under emulated writes; 11 pairs, 1 rejected",
        "injector_died: writer 0 ended: x",
        "emulation, not RDMA hardware",
        "no effect on the typical run: less than 2 %",
    ):
        assert figure in " ".join(text.split())
    assert "spin" not in text  # controls are columns


def test_a_case_of_controls_alone_still_shows(tmp_path: Path) -> None:
    found = samples(replace(STREAM, effects={"aa": 1.0}), pairs=6)
    text = _printed(results(read_run(write_run(tmp_path / "run", found)).frame))
    assert "stream aa" in text


def test_levels_are_shown_and_what_they_cost(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "run", samples(remedies(), pairs=6)))
    lines = _printed(run.results, contrasts=run.contrasts).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("rate 25%") for line in lines) == 2
    assert sum(line.startswith("cores 1") for line in lines) == 3
    rows = [line.split() for line in lines]
    assert ["melt", "off@cores=1", "off", "1.100", "6"] in rows
    assert ["melt", "on@cores=1", "on", "1.653", "6"] in rows  # 2 / 1.21
    assert "price" not in _printed(run.results)


def test_many_reasons_are_cut_short(tmp_path: Path) -> None:
    text = _printed(_rows(tmp_path, failures=11))
    assert text.count("injector_died") == 8
    assert "and 3 more reasons" in text


def test_no_rows_say_so() -> None:
    assert _printed([]) == "no result: only the arm 'off' was run\n"
