"""Figures 1 to 3 of the multirail study, on made runs whose truth is known."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from analysis.questions.question import answer, sentences_of
from analysis.report.data import load_run
from analysis.subjects import rails
from records.arms import name_of
from records.sample import Better, Sample
from tests.analysis.made_counters import counter_row, write_rows
from tests.analysis.synthetic import Case, crossed, samples, write_run

# Made runs of a multirail campaign, with known truth. Nothing here was measured.

RANKS = 2
TOOL = "mpip"
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


def test_figure_1_has_one_value_a_pair(tmp_path: Path) -> None:
    table = answer(rails.CALLS, load_run(made(tmp_path, case(), pairs=PAIRS)))
    assert table["kind"].to_list() == list(SHARES)
    assert table["n"].to_list() == [PAIRS] * 2  # off and aa of a pair
    assert table["share"].to_list() == pytest.approx(list(SHARES.values()), rel=0.02)
    assert table["message_b"].to_list() == list(MESSAGES.values())


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_figure_2_has_the_speed_of_each_policy(tmp_path: Path, better: Better) -> None:
    table = answer(rails.POLICIES, load_run(made(tmp_path, case(better=better))))
    truth = {("mpi_rail", arm, p): 1 / time for arm in ("off", "on") for p, time in TIMES.items()}
    truth |= {("writer_rail", "on", policy): 1 / time for policy, time in WRITERS.items()}
    expected = {key: speed for key, speed in truth.items() if key[2] != "default"}
    rows = {(row["factor"], row["arm"], row["policy"]): row for row in table.to_dicts()}
    assert set(rows) == set(expected)
    for key, speed in expected.items():
        row = rows[key]
        assert row["speed"] == pytest.approx(speed, rel=0.01)
        word = "faster" if speed > 1 else "slower"
        assert row["word"] in {1.0: ("no difference", "inconclusive")}.get(speed, (word,))
        ratio = row["fom"] / row["fom_reference"]
        assert (ratio if better == "higher" else 1 / ratio) == pytest.approx(speed, rel=0.02)


def test_figure_3_has_every_run_in_order_and_what_a_policy_changes(tmp_path: Path) -> None:
    run = load_run(made(tmp_path, case(), pairs=PAIRS))
    single = answer(rails.RUNS, run).filter(kind="collective").sort("number")
    assert single["number"].to_list() == list(range(1, 2 * PAIRS * len(TIMES) + 1))
    assert single["start_s"].is_sorted()
    # Times of synthetic runs are about 6 s, times the pair's factor.
    default = single.filter(policy="default")["time_s"].median()
    assert default == pytest.approx(6 * SHARES["collective"], rel=0.1)
    changes = answer(rails.CHANGES, run).to_dicts()
    assert len(changes) == 2 * (len(TIMES) - 1)
    for row in changes:
        truth = CALLS[row["policy"]][row["kind"]]
        assert row["ratio"] == pytest.approx(truth, rel=0.03)
        # The application's own time has no part in it: nic1 is slower, its collective calls not.
        words = ("more time",) if truth > 1 else ("no difference", "inconclusive")
        assert row["word"] in words


def test_a_pair_of_which_a_rank_has_no_value_is_left_out(tmp_path: Path) -> None:
    run = made(tmp_path, case(), seed=2)
    path = run / "counters" / "umt.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if "/0/3/" in line["key"] and line["rank"] == 1:
            line |= {"value": None, "state": "not counted"}
    write_rows(run, "umt", lines)
    loaded = load_run(run)
    pairs = [answer(question, loaded)["n"].to_list() for question in (rails.CALLS, rails.CHANGES)]
    assert pairs == [[PAIRS - 1] * 2, [PAIRS - 1] * 4]


@pytest.mark.parametrize(
    ("speed", "floor", "word"),
    [
        ((1.05, 1.02, 1.08), (0.99, 1.01), "faster"),
        ((0.95, 0.92, 0.98), (0.99, 1.01), "slower"),
        ((1.05, 1.02, 1.08), (0.94, 1.06), "inconclusive"),
        ((1.0, 0.99, 1.01), (0.99, 1.01), "no difference"),
        ((1.0, 0.97, 1.01), (0.99, 1.01), "inconclusive"),
        ((1.05, 1.02, 1.08), (1.01, 1.03), "inconclusive: baseline unstable"),
        ((1.05, 1.02, 1.08), (None, None), "inconclusive: baseline not repeated"),
        ((None, None, None), (0.99, 1.01), "inconclusive: 5, fewer than 6 pairs"),
    ],
)
def test_what_an_interval_carries(speed, floor, word) -> None:
    names = ("speed", "speed_low", "speed_high", "floor_low", "floor_high")
    row = dict(zip(names, (*speed, *floor), strict=True))
    row |= {"n": 5, "margin": 0.02, "fom": 1.0, "fom_reference": 1.0}
    row |= dict.fromkeys(("factor", "arm", "case", "policy", "reference", "unit"), "")
    rows = pl.DataFrame([row], schema_overrides=dict.fromkeys(names, pl.Float64))
    (shown,) = answer(replace(rails.POLICIES, rows=lambda _: rows), None).to_dicts()
    assert ": ".join(filter(None, (shown["word"], shown["why"]))) == word


def test_what_was_published_of_a_workload_stands_beside_its_figures(tmp_path: Path) -> None:
    """UMT gains 3.2 %, AMG 2 %, UMT's point-to-point calls 18 %; of others nothing is said."""
    run = load_run(made(tmp_path, case()))
    said = {
        question.name: sentences_of(question, answer(question, run)) for question in rails.QUESTIONS
    }
    source = "256 nodes, two QDR cards each, 24 ranks a node, 80 to 500 runs"
    (figure_2,) = said["rails"]
    assert source in figure_2
    assert figure_2.endswith("): umt: about 3.2 % faster with both rails.")
    assert "as much as 18 % faster with both rails" in said["rail_runs"][0]
    assert said["rail_calls"] == said["rail_runs"]
    assert "umt: more than half of the time" in said["mpi_calls"][0]
    assert "2 %" in rails.published()["figure_2"]["amg"]
    names = pl.DataFrame({"case": ["stream", "umt_openmp"]})
    assert sentences_of(rails.POLICIES, names) == []
