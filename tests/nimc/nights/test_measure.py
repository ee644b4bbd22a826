"""What a night has used, which run it continues, and what ends its runs; times by hand."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nimc.campaign.plan import Request
from nimc.campaign.prepare import prepare
from nimc.nights import measure
from nimc.nights.measure import (
    EndedRun,
    NightRuns,
    NightSession,
    environment,
    new_samples,
    node_hours,
    too_much,
)
from nimc.records.run import save_header
from nimc.run.folder import new_header
from tests.nimc.conftest import CAMPAIGN
from tests.nimc.nights.made import nightly

H = 3600.0


def write(
    run: Path, case: str, *samples: tuple[int, float, float | None], **blocks: object
) -> Path:
    """Samples (block, start and length), and records of blocks (`b0`)."""
    (run / "samples").mkdir(parents=True, exist_ok=True)
    names = ("block", "start_s", "elapsed_s")
    lines = (json.dumps(dict(zip(names, each, strict=True))) for each in samples)
    (run / f"samples/{case}.jsonl").write_text("".join(f"{line}\n" for line in lines) + '{"blo')
    for name, times in blocks.items():
        (run / f"logs/{case}/{name[1:]}").mkdir(parents=True)
        record = dict(zip(("started_s", "finished_s"), times, strict=True))  # type: ignore[call-overload]
        (run / f"logs/{case}/{name[1:]}/block.json").write_text(json.dumps(record))
    return run


def test_blocks_cost_from_the_conductors_start_or_else_from_sample_to_sample(
    tmp_path: Path,
) -> None:
    samples = [(0, 1000.0, 900.0), (1, 2050.0, 40.0), (1, 2000.0, 10.0), (2, 3000.0, None)]
    # The second block has no record, the third has not ended, the clock of the fourth went back.
    run = write(tmp_path, "stream", *samples, b0=(1000, 1360), b2=(2990, None), b3=(5000, 4000))
    write(run, "lammps", b0=(500, 860))
    nodes = {"stream": 2, "lammps": 1, "none": 9}
    for since_s, seconds in ((0.0, 2 * (360 + 90) + 360), (1000.0, 900), (1000.1, 180)):
        assert node_hours(run, nodes, since_s) == pytest.approx(seconds / 3600)
    assert [new_samples(run, since_s) for since_s in (0.0, 2050.0, 3000.1)] == [4, 2, 0]
    # 360 s of two nodes; five more are 1 node-hour and half an hour.
    run, nodes = write(tmp_path / "one", "stream", b0=(1000, 1360)), {"stream": 2}
    assert too_much(run, 5, nodes, 1800.0, 1.0) is None
    assert too_much(run, 5, nodes, 1801.0, 0.99) == "0.99 node-hours are left; 1 are needed"
    assert too_much(run, 5, nodes, 1700.0, 1.01) == "28.3 minutes are left; 30 are needed"
    assert too_much(run, 4, nodes, 1700.0, 0.99) is None


@pytest.fixture
def asked(tmp_path: Path) -> Request:
    (tmp_path / "small.yaml").write_text(CAMPAIGN)
    return prepare(tmp_path / "small.yaml", "localhost")


def runs_of(
    asked: Request, results: Path, since_s: float, runs: dict[str, tuple[float, float | None]]
) -> NightRuns:
    """Of a night that began then, after runs that began and ended so."""
    new = new_header(asked)
    for name, (started_s, finished_s) in runs.items():
        (results / name).mkdir(parents=True)
        other: dict[str, Any] = {
            "of_some": {"digest": "0" * 64},
            "foreign": {"machine": "m", "digest": "1" * 64},
        }
        times = {"started_s": started_s, "finished_s": finished_s}
        save_header(results / name, replace(new, run=name, **times, **other.get(name, {})))
    return NightRuns.of(results, asked, asked.plan(), since_s)


@pytest.mark.parametrize(
    ("runs", "since_s", "expected"),
    [
        ({}, 0.0, None),
        ({"a": (1.0, None)}, 9 * H, 1.0),
        ({"a": (1.0, None), "b": (5.0, 6.0)}, 9 * H, None),
        # It began within 18 hours of a finished one in an earlier night, and so repeats that.
        ({"a": (H, 2 * H), "b": (19 * H - 1, None)}, 20 * H, None),
        ({"a": (H, 2 * H), "b": (19 * H, None)}, 20 * H, 19 * H),
        ({"a": (H, 2 * H), "b": (19 * H - 1, None)}, 19 * H - 1, 19 * H - 1),
        ({"a": (H, None), "b": (9 * H, None)}, 20 * H, 9 * H),
        ({"a": (H, 2 * H), "b": (80 * H, 81 * H), "c": (82 * H, None)}, 99 * H, None),
        ({"a": (H, 2 * H), "of_some": (30 * H, 31 * H), "c": (32 * H, None)}, 99 * H, 32 * H),
    ],
)
def test_the_last_run_is_continued_unless_it_repeats_one(
    asked: Request,
    tmp_path: Path,
    runs: dict[str, tuple[float, float | None]],
    since_s: float,
    expected: float | None,
) -> None:
    assert runs_of(asked, tmp_path / "results", since_s, runs).unfinished_s == expected


def test_what_ended_in_the_night_or_goes_on_uses_its_budget(asked: Request, tmp_path: Path) -> None:
    results = tmp_path / "results"
    runs = {"early": (1.0, 99.9), "at": (2.0, 100.0), "late": (3.0, 150.0), "open": (4.0, None)}
    runs |= {"of_some": (5.0, 160.0), "foreign": (6.0, 170.0)}
    night = runs_of(asked, results, 100.0, runs)
    assert night.measured == results / "at"
    assert {path.name for path in night.used} == {"at", "late", "open", "of_some"}
    assert (night.current(), night.new_samples(), night.used_node_h()) == (None, 0, 0.0)
    for name in ("early", "late", "of_some"):
        write(results / name, "stream", (0, 200.0, 1.0), b0=(200, 560))
    write(results / "open", "stream", (0, 50.0, 1.0), (0, 300.0, 60.0), b1=(100, 460))
    assert (night.current(), night.new_samples()) == (results / "open", 1)
    # 360 s of three runs; the block that began before the night is not counted.
    assert night.used_node_h() == pytest.approx(0.3)
    # A run that is begun later is not looked for again, but is its own once it has samples.
    fresh = runs_of(asked, results, 100.0, {"next": (7.0, None)})
    fresh.used.clear()
    assert fresh.current() is None
    write(results / "next", "stream", (0, 100.0, 1.0))
    assert (fresh.current(), fresh.used) == (results / "next", {results / "next"})

    def session(now_s: float, budget_node_h: float) -> NightSession:
        of, log = nightly(tmp_path), tmp_path / "log"
        limits = {"end_s": 1000.0, "budget_node_h": budget_node_h, "clock_s": lambda: now_s}
        return NightSession(of, night, slurm=False, log=log, lock=0, **limits)  # type: ignore[arg-type]

    assert session(999.9, 0.31)._limit(night) is None
    assert session(1000.0, 0.31)._limit(night) == "its window ended"
    night.used, night.found = {results / "late"}, results / "late"
    assert session(0.0, 0.1)._limit(fresh) == "its budget was used up"
    assert night.used == {results / "late", results / "next"}


@pytest.mark.parametrize(
    ("polls", "signum", "limit", "stopped"),
    [
        ([None, 0, 0], None, None, None),
        ([None, None, 0, 0], None, None, None),
        ([None, None, None], None, "its window ended", "its window ended"),
        ([None, None, None], 15, None, "stopped by a signal"),
        ([None, None, 0], None, "its window ended", None),  # it had ended meanwhile
    ],
)
def test_a_run_is_stopped_by_a_signal_or_a_limit(
    monkeypatch: pytest.MonkeyPatch,
    polls: list[int | None],
    signum: int | None,
    limit: str | None,
    stopped: str | None,
) -> None:
    ended: list[object] = []
    monkeypatch.setattr(measure, "stop", ended.extend)
    child = SimpleNamespace(poll=lambda: polls.pop(0))
    interrupts = SimpleNamespace(wait=lambda _: None, signum=signum)
    assert measure._attend(child, interrupts, lambda: limit) == stopped  # type: ignore[arg-type]
    assert (ended == [child], polls) == (stopped is not None, [])


def test_a_run_is_nimc_run_whose_last_line_and_document_are_kept(
    tmp_path: Path, asked: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def start(argv: Sequence[str], output: Any, *, errors: Any, **more: Any) -> Any:
        given.append((argv, more["pass_fds"]))
        output.write(b'{"run": "/r", "results": [1]}')
        errors.write(b"nimc: begins\nnimc: ends\n")
        errors.flush()
        return SimpleNamespace(poll=lambda: 1, returncode=1)

    monkeypatch.setattr(measure, "start", start)
    (tmp_path / "log").write_text("nimc: of an earlier start\n")
    of, runs = nightly(tmp_path), runs_of(asked, tmp_path / "none", 0.0, {})
    for verbose in (False, True):
        session = NightSession(
            of, runs, slurm=False, end_s=9e9, budget_node_h=1.0,
            log=tmp_path / "log", lock=7, verbose=verbose,
        )  # fmt: skip
        ended = session.measure(runs, "--fresh")
        assert ended == EndedRun(1, {"run": "/r", "results": [1]}, "ends", None)
    words = [*measure.NIMC, "run", str(tmp_path / "small.yaml"), "--machine", "localhost"]
    words += ["--results", str(tmp_path / "results"), "--json", "--fresh"]
    assert given == [(words, [7]), ([*words, "--verbose"], [7])]


def test_a_run_is_concluded_if_it_has_results() -> None:
    some, none = {"run": "/r", "results": [1]}, {"run": "/r", "results": []}
    found = [EndedRun(*of).concluded for of in ((0, some), (1, some), (2, some), (3, some))]
    assert found == [Path("/r"), Path("/r"), None, None]
    assert EndedRun(0, none).concluded is None


def test_jobs_of_a_night_that_is_a_job_inherit_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("SLURM_JOB_ID", "SLURMD_NODENAME", "SBATCH_ACCOUNT", "SLURM_CONF", "OTHER"):
        monkeypatch.setenv(name, "x")
    kept = {name for name, value in environment().items() if value == "x"}
    assert kept == {"SLURM_CONF", "OTHER"}
    assert environment()["PYTHONPATH"]
