"""Tests the computed speed with a core that is reserved only during traffic.

Speeds of the made runs are worked out by hand.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.questions.question import answer
from analysis.remedies.advice import advise, dynamic_reservation_lines
from analysis.remedies.dynamic import DYNAMIC, STRATEGIES
from analysis.report.data import RunData
from tests.analysis.remedies.made_core import CORE
from tests.analysis.remedies.sweeps import SAME_RATE_B_S, sweep, swept
from tests.analysis.synthetic import LAMMPS, crossed, loaded_run, samples


def speeds(run: RunData, share: float, traffic: str = "on") -> list[float]:
    (row,) = (row for row in advise([run], share).dynamic if row["traffic"] == traffic)
    return [row[name] for name in STRATEGIES]


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    """Return a run without a sweep of rates.

    Times without and with writes are 1 and 1.5; with the core, they are 1.05 and 1.1.
    """
    exact = replace(CORE, noise=0.0)
    return loaded_run(tmp_path_factory.mktemp("core") / "run", samples(exact, pairs=6))


@pytest.fixture(scope="module")
def rates(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    """Return a run with a sweep of rates x.

    The speed is 14 - 0.3 x GB/s, with the core 12.8 - 0.1 x. The core helps from 6 GB/s on.
    """
    exact = replace(sweep(noise=0.0), pair_noise=0.0)
    return loaded_run(tmp_path_factory.mktemp("rates") / "run", swept(exact, pairs=6))


@pytest.mark.parametrize(
    ("share", "by_hand"),
    [
        (0.0, [1, 1 / 1.05, 1]),
        # Never: 0.8 + 0.2 / 1.5. Always: 0.8 / 1.05 + 0.2 / 1.1. Dynamic: 0.8 + 0.2 / 1.1.
        (0.2, [0.933333, 0.943723, 0.981818]),
        (1.0, [1 / 1.5, 1 / 1.1, 1 / 1.1]),
    ],
)
def test_without_a_sweep_the_core_is_reserved_during_all_traffic(
    core: RunData, share: float, by_hand: list[float]
) -> None:
    assert speeds(core, share) == pytest.approx(by_hand, rel=1e-5)


def test_a_core_that_never_helps_is_never_reserved(tmp_path: Path) -> None:
    """During traffic, the time is 1.6 with the core and 1.5 without."""
    worse = replace(CORE, noise=0.0, effects={**CORE.effects, "on@reserved_cores=1": 1.6})
    run = loaded_run(tmp_path / "run", samples(worse, pairs=6))
    never, always, dynamic = speeds(run, 0.5)
    assert dynamic == never > always


def test_the_core_is_reserved_above_the_rate_at_which_both_are_as_fast(rates: RunData) -> None:
    """Speeds without and with the core, of 14 GB/s.

    At a rate of 7.2 GB/s, these are 11.84 and 12.08; at 3.6 GB/s, they are 12.92 and 12.44.
    """
    full, half = [0.922857, 0.888571, 0.931429], [0.961429, 0.901429, 0.961429]
    assert speeds(rates, 0.5) == pytest.approx(full, rel=2e-3)  # rates scatter by 2 %
    assert speeds(rates, 0.5, "on@rate=50%") == pytest.approx(half, rel=2e-3)
    rows = {row["traffic"]: row for row in advise([rates], 0.5).dynamic}
    assert [rows[name]["reserves"] for name in ("on", "on@rate=50%")] == [True, False]
    assert rows["on"]["from_b_s"] == pytest.approx(SAME_RATE_B_S, rel=0.03)


def test_the_speed_is_marked_as_computed_and_compared_with_never_and_always(
    core: RunData, rates: RunData
) -> None:
    (line,) = dynamic_reservation_lines(advise([core], 0.2))
    assert line == (
        "lammps, reserved_cores=1 only under traffic (computed): with on 20 % of the time, the"
        " speed is 98.2 % [98.2, 98.2] of that without traffic; never reserved 93.3 % [93.3, 93.3],"
        " always 94.4 % [94.4, 94.4]"
    )
    lines = dynamic_reservation_lines(advise([core, rates], 0.2))
    assert [re.search(r"\(run (.*)\)$", line)[1] for line in lines] == ["synthetic-run"] * 2


def test_the_picture_has_each_strategy_over_the_share_of_traffic(core: RunData) -> None:
    rows = answer(DYNAMIC, core).to_dicts()
    assert len(rows) == 4 * len(STRATEGIES)
    speeds = {(row["share"], row["strategy"]): row["speed"] for row in rows}
    assert speeds[1.0, "dynamic"] == pytest.approx(speeds[1.0, "always"])
    assert speeds[0.0, "dynamic"] == pytest.approx(speeds[0.0, "never"])
    # Never: 0.5 (1 + 1 / 1.5). Always: 0.5 (1 / 1.05 + 1 / 1.1). Dynamic: 0.5 (1 + 1 / 1.1).
    by_hand = [0.833333, 0.930736, 0.954545]
    assert [speeds[0.5, name] for name in STRATEGIES] == pytest.approx(by_hand, rel=1e-5)


def test_fewer_reserved_cores_than_the_first_level_are_no_strategy(tmp_path: Path) -> None:
    effects = {name.replace("=1", "=0"): time for name, time in CORE.effects.items()}
    reversed_levels = crossed(replace(CORE, effects=effects), {"reserved_cores": 1})
    run = loaded_run(tmp_path / "run", samples(reversed_levels, pairs=6))
    advice = advise([run])
    assert [row["level"] for row in advice.remedies] == ["0"]
    assert advice.dynamic == []


def test_a_run_without_a_reserved_core_has_no_strategies(tmp_path: Path) -> None:
    run = loaded_run(tmp_path / "run", samples(LAMMPS, pairs=6))
    assert advise([run]).dynamic == []
    assert answer(DYNAMIC, run).is_empty()
