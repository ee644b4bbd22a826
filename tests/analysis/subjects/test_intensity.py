"""Loss against intensity on chosen losses."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.effects.estimate import Result
from analysis.effects.verdict import Verdict
from analysis.report.data import load_run
from analysis.report.page import render, write_data
from analysis.statistics.interval import Estimate
from analysis.subjects.intensity import FLOPS, curves, intensity_view
from tests.analysis.synthetic import Case, crossed, header, result, samples, write_run

#: Flops per element -> slowdown; 24 bytes are an element.
SLOWER = {2: 1.5, 24: 1.2, 96: 1.0, 192: 1.0}


def at(flops: int, low: float, high: float, **changes: object) -> Result:
    fields = {
        **{"case": "intensity", "workload": "intensity", "arm": f"on@flops_per_element={flops}"},
        **{"slowdown": Estimate((low + high) / 2, low, high, 0.95), "margin": 0.02},
        **{"baseline": f"off@flops_per_element={flops}", "better": "higher", "unit": "B/s"},
        "factors": {"flops_per_element": flops, "rate": "full"},
    }
    return result(**{**fields, **changes})


def only(*rows: Result):
    (curve,) = curves(rows)
    return curve


def test_from_where_the_whole_interval_is_within_the_margin() -> None:
    curve = only(at(96, 0.99, 1.015), at(2, 1.4, 1.6), at(24, 1.0, 1.03), at(192, 0.985, 1.0))
    assert [level.flops_per_b for level in curve.levels] == [2 / 24, 1, 4, 8]
    assert curve.levels[0].loss.value == pytest.approx(0.5)
    assert [level.within for level in curve.levels] == [False, False, True, True]
    assert (curve.harmless_from, curve.matters_at) == (4, 1)
    assert curve.finding == "the loss is within 2 % from 4 flops per byte on; at 1 it is not"
    assert curve.at == {"rate": "full"}
    curve = only(at(2, 0.99, 1.01), at(24, 1.0, 1.0))
    assert (curve.harmless_from, curve.matters_at) == (2 / 24, None)
    assert "from the lowest intensity on, 0.0833 flops/B" in curve.finding


@pytest.mark.parametrize(
    ("rows", "harmless_from"),
    [
        # One within below one that is not does not count.
        ((at(2, 1.0, 1.01), at(24, 1.1, 1.2), at(48, 1.0, 1.02)), 2),
        ((at(2, 1.0, 1.01), at(24, 1.0, 1.021)), None),
        # A speed-up beyond the margin, and too few pairs.
        ((at(2, 1.0, 1.0), at(24, 0.97, 1.0)), None),
        ((at(2, 1.0, 1.0), at(24, 1.0, 1.0, slowdown=None)), None),
    ],
)
def test_the_highest_intensities_decide(rows, harmless_from) -> None:
    curve = only(*rows)
    assert curve.harmless_from == harmless_from
    assert curve.finding.startswith("the loss is not shown to be") == (harmless_from is None)


@pytest.mark.parametrize(
    "verdict",
    [Verdict.NO_WRITES, Verdict.BASELINE_UNSTABLE],
)
def test_nothing_is_harmless_that_was_not_compared(verdict: Verdict) -> None:
    """Without writes, or on a baseline that does not repeat itself, no loss shows nothing."""
    curve = only(at(2, 1.0, 1.01), at(24, 1.0, 1.01, verdict=verdict))
    assert (curve.levels[1].within, curve.levels[1].reason) == (False, str(verdict))
    assert curve.harmless_from is None


def test_a_level_that_is_no_number_above_zero_is_left_out() -> None:
    odd = [
        at(4, 1.0, 1.0, factors={"flops_per_element": level, "rate": "full"})
        for level in ("many", "4", 0, -2, 10**400)
    ]
    curve = only(at(2, 1.0, 1.0), *odd, at(24, 1.0, 1.0))
    assert [each.flops_per_b for each in curve.levels] == [2 / 24, 1]


def test_levels_of_other_factors_and_other_workloads_are_apart() -> None:
    slow = [at(flops, 1.0, 1.0, factors={"flops_per_element": flops, "rate": "25%"})
            for flops in (2, 4)]  # fmt: skip
    full = [at(flops, 1.0, 1.0) for flops in (2, 4)]
    assert [curve.at["rate"] for curve in curves([*full, *slow])] == ["full", "25%"]
    assert curves([replace(row, workload="stream") for row in full]) == []
    assert curves(full[:1]) == []


def test_the_section(tmp_path: Path) -> None:
    of = {f"on@{FLOPS}={n}": slower for n, slower in SLOWER.items()}
    of |= {f"{arm}@{FLOPS}={n}": 1 for n in SLOWER for arm in ("off", "aa")}
    case = crossed(Case("intensity", "B/s", "higher", 10e9, of, noise=0.001), {FLOPS: 2})
    found = samples(case, seed=2)  # its repeated baselines agree
    run = load_run(write_run(tmp_path / "run", found, header(campaign="intensity")), force=True)
    view = intensity_view(run, "x")
    (curve,) = view.curves
    assert curve.harmless_from == 4
    text = render([run])
    section = text[text.index('id="r0intensity"') :]
    assert "within 2 % from 4 flops per byte on; at 1 it is not" in section
    assert "Emulated RDMA, not RDMA hardware." in section[: section.index("</ul>")]
    rows = re.findall(r'data-label="within the margin">(\w+)<', section)
    assert rows == ["no", "no", "yes", "yes"]
    (file,) = (path for path in write_data(tmp_path, [run]) if path.name == "intensity.json")
    (row,) = json.loads(file.read_text())["curves"]
    assert (row["harmless_from_flops_per_b"], row["matters_at_flops_per_b"]) == (4, 1)
