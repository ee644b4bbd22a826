import re
from dataclasses import replace

import click
import pytest

from analysis.effects.estimate import results
from analysis.effects.result import Result
from nimc.cli.results import results_tables
from tests.analysis.synthetic import LAMMPS, STREAM, commands, frame_of, header, reject, samples


def _printed(rows: list[Result], *, details: bool = False) -> str:
    parts = results_tables(rows, header(), commands(), details=details)
    return click.unstyle("\n".join(map(str, parts))) + "\n"


@pytest.fixture(scope="module")
def rows() -> list[Result]:
    runs = samples(STREAM, blocks=2, pairs=6) + samples(
        replace(LAMMPS, name="lammps@8192", effects={"on": 1.0, "aa": 1.0}, noise=0.002),
        pairs=12,
        seed=2,
    )
    on = [i for i, sample in enumerate(runs) if sample.arm == "on"]
    runs[on[0]] = reject(runs[on[0]], "injector_died", "writer 0 ended: x")
    return results(frame_of(runs))


def test_a_case_has_one_line_of_eighty_columns_with_its_figures(rows: list[Result]) -> None:
    text = _printed(rows)
    assert max(map(len, text.splitlines())) <= 80
    on = rows[2]
    assert (on.case, on.arm) == ("stream", "on")
    head, melt, stream, *others = text.splitlines()
    assert re.split("  +", head)[:3] == ["case", "slowdown, 95 %", "verdict"]
    assert (melt.split()[0], stream.split()[0], others[0]) == ("lammps@8192", "stream", "")
    slowdown = on.slowdown
    places = 2 if slowdown.high - slowdown.low > 0.05 else 3
    figures = f"{slowdown.value:.{places}f} [{slowdown.low:.{places}f}, {slowdown.high:.{places}f}]"
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
    assert words.count("emulation, not RDMA hardware") == 1  # one note is for both cases
    assert others[-2].startswith("Next: ")
    assert "spin" not in text  # controls are shown only with details
    text = _printed(rows, details=True)
    assert max(map(len, text.splitlines())) <= 80
    assert f"control: {on.control.low:.3f}-{on.control.high:.3f}" in " ".join(text.split())
    assert "-v adds" not in text
