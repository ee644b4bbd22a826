"""A bound from runs with known intervals, and waits against queueing theory."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.simulate.licence import queue, waits_s
from tests.nimc.conftest import Command
from tests.nimc.simulation.made import made_run

#: Of six pairs the upper limit is between the two largest ratios.
SPREAD = (-0.01, -0.005, 0.0, 0.0, 0.005, 0.01)


def make_run(folder: Path, slowdowns: dict[int, float], transport: str = "tcp") -> Path:
    """A run with six pairs for each number of writers at once."""
    scales = {
        f"lammps@8,writers={writers}": (
            *(8, writers),
            [{"off": 1.0, "daly": slowdown + more, "aa": 1 + more / 100} for more in SPREAD],
        )
        for writers, slowdown in slowdowns.items()
    }
    return made_run(folder, scales, transport)


def without(run: Path, text: str) -> None:
    (file,) = (run / "samples").iterdir()
    rows = [line for line in file.read_text().splitlines() if text not in line]
    file.write_text("\n".join(rows) + "\n")


@pytest.mark.parametrize(
    ("slowdowns", "writers"),
    [
        ({1: 1.01, 2: 1.02, 4: 1.03}, 4),
        # 1.045 is within 5 %, its upper limit of over 1.05 is not; nothing is interpolated.
        ({1: 1.01, 2: 1.02, 4: 1.045}, 2),
        # A larger number that fits by chance does not count.
        ({1: 1.01, 2: 1.06, 4: 1.02}, 1),
        ({1: 1.045, 2: 1.02}, 0),
    ],
)
def test_the_largest_number_up_to_which_all_upper_limits_fit(
    tmp_path: Path, command: Command, slowdowns: dict[int, float], writers: int
) -> None:
    words = ["licence", make_run(tmp_path / "run", slowdowns), "--slowdown", "5%"]
    found = command.json(*words, code=0 if writers else 1)
    assert found["bound"]["writers"] == writers
    measured = {row["writers"]: row for row in found["bound"]["measured"]}
    for number, slowdown in slowdowns.items():
        assert measured[number]["slowdown"] == pytest.approx(slowdown)
        assert slowdown + 0.005 < measured[number]["slowdown_high"] <= slowdown + 0.01 + 1e-9
    conf = found["slurm_conf"]
    assert conf == (f"Licenses=nimc_writers:{writers}\nJobSubmitPlugins=lua\n" if writers else None)
    assert (found["job_submit_lua"] is None) == (writers == 0)
    # Files are printed only for a bound.
    text = command(*words, "--part", "slurm.conf", code=0 if writers else 1)
    assert (text == conf) == bool(writers)


def test_nothing_rests_on_a_baseline_that_was_not_repeated(
    tmp_path: Path, command: Command
) -> None:
    """And emulated writes are a caveat."""
    for transport, caveats in (("tcp", 1), ("InfiniBand", 0)):
        run = make_run(tmp_path / transport, {1: 1.01}, transport)
        words = ["licence", run, "--slowdown", "5%"]
        assert len(command.json(*words)["bound"]["caveats"]) == caveats
    without(run, '"aa"')
    (row,) = command.json(*words, code=1)["bound"]["measured"]
    assert row["verdict"] == "baseline not repeated"
    without(run, '"daly"')
    command(*words, code=2)
    assert str(run) in command.err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--slowdown", "5%"],
        [".", "--licences", "2"],
        ["--licences", "2", "--slowdown", "5%"],
        ["--licences", "0"],
        ["--licences", "2", "--write", "2s"],
        ["--licences", "2", "--nodes", "64", "--write", "0s"],
    ],
)
def test_wrong_usage(command: Command, words: Sequence[str]) -> None:
    command("licence", *words, code=2)


def test_waits_by_hand() -> None:
    # Two licences: the third job takes the second's at 3, the fourth the first's at 4.
    assert waits_s([0, 1, 2, 2.5, 20], [4, 2, 5, 1, 1], 2) == [0, 0, 1, 1.5, 0]


def test_waits_of_random_writes_are_erlangs() -> None:
    # M/M/2 with 1.5 arrivals a second and writes of 1 s on average. Erlang C is 4.5 / 7: of
    # a^2/2 / (1 - 0.75) = 4.5 and 1 + a = 2.5. Mean wait C / (2 - 1.5); 5 % wait more than
    # ln(C / 0.05) / (2 - 1.5).
    random, jobs = np.random.default_rng(7), 400_000
    arrivals = random.exponential(1 / 1.5, jobs).cumsum()
    waits = waits_s(arrivals, random.exponential(1.0, jobs), 2)
    erlang_c = 4.5 / 7
    assert np.mean(waits) == pytest.approx(2 * erlang_c, rel=0.05)
    assert np.quantile(waits, 0.95) == pytest.approx(2 * math.log(erlang_c / 0.05), rel=0.05)
    assert np.mean(np.array(waits) > 0) == pytest.approx(erlang_c, rel=0.02)


def test_waits_of_equal_writes_are_pollaczeks_and_khinchines() -> None:
    found = queue(512, 5 * 365.25 * 86400, 1.0, 0.2, 1, seed=3)
    # Daly by hand: with M = 157788000 / 512 s, sqrt(2 M) (1 + sqrt(1 / 2M) / 3 + 1 / 18M) - 1 is
    # 784.42 s, so that 512 nodes start 512 writes in 785.42 s.
    assert found.arrivals_per_s == pytest.approx(512 / 785.42, rel=1e-4)
    busy = found.arrivals_per_s * 1.2
    assert found.utilisation == pytest.approx(busy)
    # M/D/1: the mean wait is busy / (1 - busy) / 2 of the time that each takes.
    assert found.wait_mean_s == pytest.approx(1.2 * busy / (1 - busy) / 2, rel=0.05)


def test_too_few_licences_let_the_queue_grow(command: Command) -> None:
    words = ["licence", "--licences", "1", "--nodes", "8192"]
    waiting: dict[str, Any] = command.json(*words)["queue"]
    assert waiting["utilisation"] > 1
    assert waiting["wait_mean_s"] is None
    assert "without end" in " ".join(command(*words).split())
