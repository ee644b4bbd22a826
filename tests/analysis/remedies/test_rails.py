"""Figures 1 to 3 of the multirail study, on made runs whose truth is known."""

import csv
import json
import re
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from analysis.report.data import load_run
from analysis.report.page import render, write_data
from analysis.statistics.interval import Estimate
from analysis.subjects.rails import RailFigures, decided, rail_figures, rails_view
from records.arms import name_of
from records.sample import Better, Sample
from tests.analysis.made_counters import counter_row, write_rows
from tests.analysis.synthetic import LAMMPS, Case, crossed, samples, write_run

# Made runs of a multirail campaign, with known truth. Nothing here was measured.

RANKS = 2
TOOL = "mpip"
POLICIES = ("default", "nic0", "nic1")
#: True time at a policy / time at `default`.
TIMES = {"default": 1.0, "nic0": 1.0, "nic1": 1.1}
#: True slowdown under writers, by MPI's policy at the writers' default, and by the writers'.
SLOWDOWN = 1.5
WRITERS = {"default": 1.0, "nic0": 0.8}
#: True shares of the application's time at `default`, and mean messages.
SHARES = {"point-to-point": 0.2, "collective": 0.05}
MESSAGES = {"point-to-point": 40_000.0, "collective": 8.0}
#: True time in each kind of call at a policy / at `default`.
CALLS = {
    "default": {"point-to-point": 1.0, "collective": 1.0},
    "nic0": {"point-to-point": 1.0, "collective": 1.0},
    "nic1": {"point-to-point": 1.4, "collective": 1.0},
}


def treatments() -> dict[str, float]:
    """Name -> time / time of `off`, of a campaign as multirail.yaml asks it."""
    found = {}
    for policy, time in TIMES.items():
        level = {} if policy == "default" else {"mpi_rail": policy}
        for arm, factor in (("off", 1.0), ("on", SLOWDOWN), ("aa", 1.0)):
            found[name_of(arm, level)] = time * factor
            if arm != "on":
                found[name_of(arm, {**level, "tool": TOOL})] = time * factor
    found["on@writer_rail=nic0"] = SLOWDOWN * WRITERS["nic0"]
    del found["off"]
    return found


def case(noise: float = 0.005, better: Better = "lower", transport: str = "RDMA") -> Case:
    """A case whose treatments have the times of `treatments`."""
    made = Case(
        *("umt", "s" if better == "lower" else "1/s", better, 10.0, treatments()),
        noise=noise,
        pair_noise=0.05,
        transport=transport,
        origin="synthetic-1",
    )
    return crossed(made, {"mpi_rail": "default", "tool": "none"}, {"writer_rail": "default"})


def made(folder: Path, one: Case, *, pairs: int = 10, seed: int = 1) -> Path:
    """A run with the counts of mpiP in every run that it wrapped."""
    found = samples(one, pairs=pairs, seed=seed)
    run = write_run(folder / f"run-{seed}", found)
    rng = np.random.default_rng(seed)
    lines = [line for each in found if each.factors["tool"] == TOOL for line in counts(each, rng)]
    write_rows(run, one.name, lines)
    return run


def counts(
    sample: Sample, rng: np.random.Generator, noise: float = 0.01
) -> list[dict[str, object]]:
    """Lines of `counters/CASE.jsonl` of one run: both ranks take the same time."""
    policy = str(sample.factors["mpi_rail"])
    time_s = sample.elapsed_s / TIMES[policy]
    found = []
    for rank in range(RANKS):
        values = {"application-time": (time_s, "s")}
        for kind, share in SHARES.items():
            spread = float(np.exp(rng.normal(0, noise)))
            values[f"{kind}-time"] = (share * time_s * CALLS[policy][kind] * spread, "s")
            values[f"{kind}-calls"] = (30.0, "count")
            values[f"{kind}-messages"] = (10.0, "count")
            values[f"{kind}-sent"] = (10 * MESSAGES[kind], "B")
        of = {"tool": TOOL, "rank": rank, "running_share": None}
        found += [
            counter_row(sample.key, event, value, unit=unit, **of)
            for event, (value, unit) in values.items()
        ]
    return found


PAIRS = 10


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("rails"), case(), pairs=PAIRS)


@pytest.fixture(scope="module")
def found(run: Path) -> RailFigures:
    return rail_figures(load_run(run))


def test_figure_1_has_shares_and_messages_with_their_intervals(found: RailFigures) -> None:
    assert [(row.case, row.tool, row.kind) for row in found.calls] == [
        ("umt", "mpip", kind) for kind in SHARES
    ]
    for row in found.calls:
        assert row.pairs == PAIRS  # off and aa of a pair are one value
        assert row.share == pytest.approx(SHARES[row.kind], rel=0.02)
        assert row.share_low < SHARES[row.kind] < row.share_high
        assert row.message_b == row.message_low_b == row.message_high_b == MESSAGES[row.kind]


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_figure_2_has_the_speed_of_each_policy(tmp_path: Path, better: Better) -> None:
    rows = rail_figures(load_run(made(tmp_path, case(better=better)))).policies
    truth = {("mpi_rail", arm, p): 1 / time for arm in ("off", "on") for p, time in TIMES.items()}
    truth |= {("writer_rail", "on", policy): 1 / time for policy, time in WRITERS.items()}
    expected = {key: speed for key, speed in truth.items() if key[2] != "default"}
    assert {(row.factor, row.arm, row.policy) for row in rows} == set(expected)
    for row in rows:
        speed = expected[row.factor, row.arm, row.policy]
        assert row.speed.value == pytest.approx(speed, rel=0.01)
        assert (row.reference, row.pairs) == ("default", PAIRS)
        assert row.finding in {1.0: ("no difference", "not decided")}.get(
            speed, ("more",) if speed > 1 else ("less",)
        )
        assert row.fom_reference is not None
        ratio = row.fom / row.fom_reference
        assert (ratio if better == "higher" else 1 / ratio) == pytest.approx(speed, rel=0.02)


def test_figure_3_has_every_run_in_order_and_what_a_policy_changes(found: RailFigures) -> None:
    own = [row for row in found.runs if row.kind == "collective"]
    assert [row.number for row in own] == list(range(1, 2 * PAIRS * len(TIMES) + 1))
    assert [row.start_s for row in own] == sorted(row.start_s for row in own)
    assert {row.policy for row in own} == set(TIMES)
    # Times of synthetic runs are about 6 s, times the pair's factor.
    default = [row.time_s for row in own if row.policy == "default"]
    assert median(default) == pytest.approx(6 * SHARES["collective"], rel=0.1)
    for row in found.changes:
        truth = CALLS[row.policy][row.kind]
        assert row.ratio.value == pytest.approx(truth, rel=0.03)
        # The application's own time has no part in it: nic1 is slower, its collective calls not.
        assert row.finding in (("more",) if truth > 1 else ("no difference", "not decided"))
        assert row.pairs == PAIRS
    assert len(found.changes) == 2 * (len(TIMES) - 1)


def test_runs_under_writers_with_a_null_or_of_few_pairs_give_nothing(tmp_path: Path) -> None:
    few = rail_figures(load_run(made(tmp_path, case(), pairs=5)))
    assert {row.finding for row in [*few.policies, *few.changes]} == {"too few pairs"}
    assert {row.share_low for row in few.calls} == {None}
    run = made(tmp_path, case(), seed=2)
    path = run / "counters" / "umt.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if "/0/3/" in line["key"] and line["rank"] == 1:
            line |= {"value": None, "state": "not counted"}
    write_rows(run, "umt", lines)
    found = rail_figures(load_run(run))
    assert {row.pairs for row in [*found.calls, *found.changes]} == {PAIRS - 1}


@pytest.mark.parametrize(
    ("effect", "floor", "finding"),
    [
        ((1.05, 1.02, 1.08), (0.99, 1.01), "more"),
        ((0.95, 0.92, 0.98), (0.99, 1.01), "less"),
        ((1.05, 1.02, 1.08), (0.94, 1.06), "not decided"),
        ((1.0, 0.99, 1.01), (0.99, 1.01), "no difference"),
        ((1.0, 0.97, 1.01), (0.99, 1.01), "not decided"),
        ((1.05, 1.02, 1.08), (1.01, 1.03), "baseline unstable"),
        ((1.05, 1.02, 1.08), None, "baseline not repeated"),
        (None, (0.99, 1.01), "too few pairs"),
    ],
)
def test_what_an_interval_carries(effect, floor, finding) -> None:
    of = Estimate(*effect, 0.95) if effect else None
    repeated = Estimate(sum(floor) / 2, *floor, 0.95) if floor else None
    assert decided(of, repeated, 0.02) == finding


def test_the_page_shows_the_figures_and_their_findings(run: Path) -> None:
    text = render([load_run(run)])
    section = text[text.index('id="r0rails"') :].partition("</section>")[0]
    assert 'href="#r0rails"' in text
    assert [len(re.findall(f"<strong>Figure {n}", section)) for n in (1, 2, 3)] == [1, 3, 1]
    labels = re.findall(r'aria-label="([^"]*)"', section)
    assert re.search(r"umt point-to-point \d\d\.\d% of the time, mean message 40\.0 kB", labels[0])
    assert re.search(r"umt nic1 0\.9\d\d \(", labels[1])
    assert re.search(r"umt nic0 1\.2\d\d \(", labels[3])
    assert "point-to-point at nic1 1." in labels[4]
    assert "mathdefault" not in section
    # Every run with calls counted: off and aa at three policies.
    singles = section[section.index("Figure 3") - 200_000 :]
    assert singles.count('id="r0railsr0-runs-') == 6
    assert "Emulated" not in section


def test_emulation_is_marked_at_each_figure_and_in_the_data(tmp_path: Path) -> None:
    loaded = load_run(made(tmp_path, case(transport="soft-RoCE")))
    text = render([loaded])
    section = text[text.index('id="r0rails"') :].partition("</section>")[0]
    assert section.count('<span class="emulated">Emulated RDMA') == 5
    files = {path.name: path for path in write_data(tmp_path, [loaded])}
    tables = {
        name: list(csv.DictReader(files[f"{name}.csv"].open()))
        for name in ("mpi_calls", "rails", "rail_runs", "rail_calls")
    }
    assert all("soft-RoCE" in row["emulated"] for rows in tables.values() for row in rows)
    assert [len(rows) for rows in tables.values()] == [2, 5, 2 * 2 * PAIRS * 3, 4]
    slow = next(row for row in tables["rails"] if (row["policy"], row["arm"]) == ("nic1", "off"))
    assert float(slow["speed_low"]) < 1 / 1.1 < float(slow["speed_high"])


def test_a_run_without_rails_and_calls_has_no_section_and_no_files(tmp_path: Path) -> None:
    loaded = load_run(write_run(tmp_path / "run", samples(LAMMPS, pairs=6)))
    assert rails_view(loaded, "t") is None
    assert not [path for path in write_data(tmp_path, [loaded]) if path.suffix == ".csv"]
