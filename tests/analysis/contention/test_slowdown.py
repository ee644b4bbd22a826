"""Shares and predicted slowdown: figures that follow by hand from chosen losses."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from analysis.contention.slowdown import (
    MEASURES,
    Mixture,
    SlowdownRow,
    errors,
    mixture,
    rows,
    shares_of,
    table,
)
from analysis.report.data import load_run
from analysis.statistics import aligned_ranks
from analysis.statistics.interval import Estimate
from nimc.cli.main import cli
from nimc.records.sample import Sample
from tests.analysis.synthetic import Case, crossed, samples, write_run

#: Slowdown of nt_write and of mix beside nt_write and beside mix, and under writers.
BESIDE = np.array([[1.8, 1.4], [1.2, 1.6]])
WRITERS = np.array([1.3, 1.5])
TOOLS = [f"membench:{kernel}:1" for kernel in MEASURES]


def estimates(values: object, half: float = 0.001) -> list[Estimate]:
    flat = np.ravel(np.asarray(values, dtype=float))
    return [Estimate(value, value - half, value + half, 0.95) for value in map(float, flat)]


def loses(*shares: float) -> np.ndarray:
    """What a mixture of these shares loses beside both kernels, as slowdowns."""
    return 1 + np.array(shares) @ (BESIDE - 1)


@pytest.mark.parametrize(
    ("own", "shares"),
    [
        # 0.5 x (0.8, 0.4) + 0.25 x (0.2, 0.6)
        ((0.45, 0.35), (0.5, 0.25)),
        # Not 1.45 of the first and -0.8 of the second: without it, the nearest is
        # (0.8 x 1.0 + 0.4 x 0.1) / (0.8^2 + 0.4^2).
        ((1.0, 0.1), (1.05, 0)),
        ((-0.1, 0.0), (0, 0)),
    ],
)
def test_shares_by_hand_are_not_below_zero(own, shares) -> None:
    assert shares_of(BESIDE - 1, np.array(own)) == pytest.approx(shares)


def test_mixtures_by_hand() -> None:
    # An application that loses nothing.
    found = mixture(estimates(BESIDE, 0.02), estimates([0.999, 0.998], 0.01), estimates(WRITERS))
    assert found.slowdown.value == found.slowdown.low == 1
    assert found.slowdown.high < 1.02
    # Whatever the shares of two that both lose 0.5, their sum is 0.5: 0.15 to 0.25 is lost.
    same = [[1.5, 1.5], [1.5, 1.5]]
    found = mixture(estimates(same, 0.05), estimates([1.25, 1.25], 0.0001), estimates(WRITERS))
    assert found.shares == (None, None)
    assert 1.12 < found.slowdown.low < found.slowdown.value < found.slowdown.high < 1.29
    # The noise of a measure that is not shown to lose would be divided by: all is left to mix,
    # (0.2 x 0.1 + 0.6 x 0.3) / 0.4 = 0.5.
    idle = [*estimates([1.001, 1.002], 0.01), *estimates(BESIDE[1])]
    found = mixture(idle, estimates([1.1, 1.3]), estimates(WRITERS))
    assert found.shares[0] is None
    assert found.shares[1].value == pytest.approx(0.5)
    assert found.slowdown.value == pytest.approx(1.25)
    # Its interval is that of (0.2 x 0.1 + 0.6 b) / 0.4 over a loss b of 0.25 to 0.35.
    own = [*estimates(1.1, 1e-6), *estimates(1.3, 0.05)]
    share = mixture([*idle[:2], *estimates(BESIDE[1], 1e-6)], own, estimates(WRITERS)).shares[1]
    assert (share.low, share.high) == pytest.approx((0.425, 0.575), abs=0.008)
    none = mixture(estimates([1.001] * 4, 0.01), estimates([1.1, 1.3]), estimates(WRITERS))
    assert none == "membench is not shown to be slower next to itself; use more cores"


def measured(true: np.ndarray, noise: float, rng: np.random.Generator) -> list[Estimate]:
    """Slowdowns as estimated from eight pairs; those of one case share the baseline's runs."""
    baseline = rng.normal(0, noise, 8)
    found = [
        aligned_ranks.slowdown(np.column_stack([np.log(each) + rng.normal(0, noise, 8), baseline]))
        for each in np.ravel(true)
    ]
    return [each for each in found if each]


def test_nine_of_ten_intervals_hold_the_true_slowdown() -> None:
    """Of 60 trials 57 are expected; fewer than 51 in one of 500 such tests."""
    rng = np.random.default_rng(32)
    covered = 0
    for _ in range(60):
        one, two = (measured([*BESIDE[i], WRITERS[i]], 0.02, rng) for i in range(2))
        own = measured(loses(0.5, 0.25), 0.02, rng)
        found = mixture([*one[:2], *two[:2]], own, [one[2], two[2]])
        assert isinstance(found, Mixture)
        covered += found.slowdown.low <= 1.275 <= found.slowdown.high
    assert covered >= 51


def case(name: str, times: dict[str, float], unit: str, kernel: str | None = None) -> list[Sample]:
    """Runs of a workload with these true times of its treatments relative to `off`."""

    better, base = ("higher", 1e9) if unit == "B/s" else ("lower", 10.0)
    first = {"tool": "none"} if kernel is None else {"tool": "none", "kernel": kernel}
    made = crossed(Case(name, unit, better, base, times, noise=0.001), first, {"rate": "full"})
    extra = {"cores": 18.0, "node": 0.0, "window_s": 1.0}
    return [replace(each, fom_extra=extra) for each in samples(made, pairs=8)]


def slowdown_run(folder: Path, second: str = "chimney") -> Path:
    """membench with both kernels, of which mix takes 0.7 of the time, and two applications."""
    alone = 0.7
    membench = {"on": WRITERS[0], "off@kernel=mix": alone, "on@kernel=mix": alone * WRITERS[1]}
    membench |= {f"off@tool={tool}": BESIDE[0, i] for i, tool in enumerate(TOOLS)}
    membench |= {
        f"off@tool={tool},kernel=mix": alone * BESIDE[1, i] for i, tool in enumerate(TOOLS)
    }
    made = case("membench", membench, "B/s", "nt_write")
    for name, on, shares in (("melt", 1.02, (0.1, 0.0)), (second, 1.3, (0.5, 0.25))):
        beside = {f"off@tool={tool}": loses(*shares)[i] for i, tool in enumerate(TOOLS)}
        made += case(name, {"on": on, "aa": 1.0, **beside}, "s")
    return write_run(folder / "run", made)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return slowdown_run(tmp_path_factory.mktemp("slowdown"))


@pytest.fixture(scope="module")
def found(run: Path) -> dict[str, SlowdownRow]:
    return {row.case: row for row in rows([load_run(run)])}


def test_predicted_and_measured_of_every_application(
    found: dict[str, SlowdownRow], tmp_path: Path
) -> None:
    """The loss of melt is 0.1 x 0.3; its run says 0.02."""
    (row,) = rows([load_run(write_run(tmp_path / "r", case("melt", {"on": 1.02}, "s")))])
    assert (row.predicted, row.error) == (None, None)
    assert row.reason.startswith("without six pairs of the case and of membench")
    assert set(found) == {"melt", "chimney"}
    for name, shares, predicted, on in (
        ("melt", (0.1, 0.0), 1.03, 1.02),
        ("chimney", (0.5, 0.25), 1.275, 1.3),
    ):
        row = found[name]
        assert row.share_nt_write.value == pytest.approx(shares[0], abs=0.01)
        assert row.share_mix.value == pytest.approx(shares[1], abs=0.01)
        assert row.predicted.value == pytest.approx(predicted, abs=0.005)
        assert row.measured.value == pytest.approx(on, abs=0.005)
        assert row.error == pytest.approx(predicted - on, abs=0.008)
        assert row.spread == pytest.approx(0.001 * 2**0.5, rel=0.7)


def test_errors_are_those_of_the_loss_beside_the_null() -> None:
    """|1.1 - 1.2| and |1.3 - 1.25|; without a prediction 0.2 and 0.25. The second is covered."""

    def row(predicted: Estimate | None, on: float) -> SlowdownRow:
        (true,) = estimates(on)
        return SlowdownRow("r", "c", "c", None, None, predicted, true, None, None, "")

    of = errors([row(*estimates(1.1, 0.05), 1.2), row(*estimates(1.3, 0.06), 1.25), row(None, 1.5)])
    assert (of.mean, of.null, of.covered, of.cases) == pytest.approx((0.075, 0.225, 1, 2))
    assert errors([row(None, 1.5)]) is None
    unknown = row(None, 1.5)
    assert [cells[-1] for cells in table([unknown, replace(unknown, error=-0.1)])[1]] == [
        "-",
        "-0.100",
    ]


def test_the_command(run: Path) -> None:
    words = ["model", "slowdown", "--run", str(run)]
    document = json.loads(CliRunner().invoke(cli, [*words, "--json"]).output)
    by_case = {row["case"]: row for row in document["workloads"]}
    assert by_case["chimney"]["share_nt_write"] == pytest.approx(0.5, abs=0.01)
    assert document["errors"]["cases"] == 2
    assert any("emulation" in note for note in document["notes"])
    assert f"{document['errors']['null']:.3f}" in CliRunner().invoke(cli, words).output
