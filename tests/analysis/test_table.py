import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
import pytest

from analysis.effects.contrasts import Contrast
from analysis.effects.estimate import results
from analysis.effects.result import Result
from analysis.report.data import load_run
from nimc.cli.results import results_tables
from tests.analysis.synthetic import LAMMPS, STREAM, frame_of, reject, remedies, samples, write_run


def _printed(
    rows: list[Result], contrasts: Sequence[Contrast] = (), *, details: bool = False
) -> str:
    parts = results_tables(rows, "quick", "far", 8, contrasts, details=details)
    return click.unstyle("\n".join(map(str, parts))) + "\n"


@pytest.fixture(scope="module")
def rows() -> list[Result]:
    found = samples(STREAM, blocks=2, pairs=6) + samples(
        replace(LAMMPS, name="lammps@8192", effects={"on": 1.0, "aa": 1.0}, noise=0.002),
        pairs=12,
        seed=2,
    )
    on = [i for i, sample in enumerate(found) if sample.arm == "on"]
    found[on[0]] = reject(found[on[0]], "injector_died", "writer 0 ended: x")
    return results(frame_of(found))


def test_a_line_a_case_in_eighty_columns_with_its_figures(rows: list[Result]) -> None:
    text = _printed(rows)
    assert max(map(len, text.splitlines())) <= 80
    on = rows[2]
    assert (on.case, on.arm) == ("stream", "on")
    head, melt, stream, *others = text.splitlines()
    assert re.split("  +", head)[:3] == ["case", "slowdown, 95 %", "verdict"]
    assert (melt.split()[0], stream.split()[0], others[0]) == ("lammps@8192", "stream", "")
    of = on.slowdown
    places = 2 if of.high - of.low > 0.05 else 3
    figures = f"{of.value:.{places}f} [{of.low:.{places}f}, {of.high:.{places}f}]"
    for fact in (figures, "slower under emulated writes"):
        assert fact in stream
    assert "no effect, emulated" in melt
    words = " ".join(text.split())
    for fact in (
        "injector_died: writer 0 ended: x",
        "no effect: typical run within 2 %",
        "-v adds: ",
    ):
        assert fact in words
    assert words.count("emulation, not RDMA hardware") == 1  # of both cases, once
    assert others[-2].startswith("Next: ")
    assert "spin" not in text  # controls are details


def test_details_have_the_repeated_baseline_the_control_and_the_writers(rows: list[Result]) -> None:
    on = rows[2]
    text = _printed(rows, details=True)
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    for fact in (
        f"baseline repeated: {on.noise_floor.low:.3f}-{on.noise_floor.high:.3f}",
        f"control: {on.control.low:.3f}-{on.control.high:.3f}",
        "alone 8.10 GB/s",
        "14.2 -> 10.5 GB/s",  # 14.2 / 1.353
        "11 pairs, 1 rejected",
    ):
        assert fact in words
    assert "-v adds" not in words


def test_levels_are_shown_and_what_they_cost(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "run", samples(remedies(), pairs=6)))
    text = _printed(run.results, contrasts=run.contrasts)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    for name in ("melt on@rate=25% ", "melt on@cores=1 ", "melt on@rate=25%,cores=1 "):
        assert any(line.startswith(name) for line in lines), name
    rows = [line.split() for line in lines]
    price = next(row for row in rows if row[:2] == ["melt", "off@cores=1"])
    gain = next(row for row in rows if row[:2] == ["melt", "on@cores=1"] and "gain" in row)
    assert (price[2], price[5:]) == ("1.100", ["price", "against", "off", "6", "pairs"])
    assert (gain[2], gain[5:]) == ("1.653", ["gain", "against", "on", "6", "pairs"])  # 2 / 1.21
    assert "price" not in _printed(run.results)
