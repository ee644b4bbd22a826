"""A run's folder: who holds it, and which sessions add to it."""

import errno
import fcntl
import json
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nimc.campaign.campaign_file import load_campaign
from nimc.campaign.plan import Request
from nimc.campaign.prepare import prepare
from nimc.readiness.checks import checks_in
from nimc.run import folder as folders
from nimc.run.folder import (
    differing_parts,
    find_differing_run,
    find_latest,
    new_header,
    open_run,
    requirements_of,
    resolved_request,
)
from records import marked_yaml
from records import run as records
from records.campaign import Campaign
from records.checkout import ROOT
from records.errors import InputError, MachineError
from records.machine.site import Machine
from records.order import run_seed
from records.run import Reproduced, RunHeader, load_header, plain_name, save_header
from tests.analysis.synthetic import header as made_header


@pytest.fixture(scope="module")
def quick() -> Request:
    return prepare(ROOT / "campaigns/quick.yaml", "localhost")


@pytest.fixture(scope="module")
def header(quick: Request) -> RunHeader:
    return new_header(quick)


def test_a_file_system_without_locks_is_not_taken_for_another_nimc(tmp_path, monkeypatch, header):
    # What flock() answers on Lustre that is mounted without the option flock.
    def flock(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(MachineError, match=r"lock: Function not implemented: .*option flock"):
        open_run(tmp_path, header).__enter__()


def make(results: Path, header: RunHeader) -> Path:
    """An unfinished run of that campaign, as `nimc run` leaves it."""
    with open_run(results, header) as folder:
        (folder.path / "samples").mkdir()
        (folder.path / "samples/lammps.jsonl").touch()
    return folder.path


def test_of_three_that_begin_at_once_one_has_the_run(tmp_path, monkeypatch, header):
    """Each found no run, and made one."""
    begun, ended = threading.Barrier(3), threading.Barrier(3)

    def find_late(*words: Any) -> Any:
        latest = find_latest(*words)
        time.sleep(0.1)  # in which the others would find none either
        return latest

    def begin(_: int) -> str:
        begun.wait()
        try:
            with open_run(tmp_path, header) as folder:
                ended.wait()
                return folder.path.name
        except InputError as error:
            ended.wait()
            return str(error)

    monkeypatch.setattr(folders, "find_latest", find_late)
    with ThreadPoolExecutor(3) as pool:
        run, *refused = sorted(pool.map(begin, range(3)), key=len)
    assert {path.parent.resolve().name for path in tmp_path.glob("*/run.json")} == {run}
    assert refused == 2 * [
        f"{tmp_path / run}: another nimc (process {os.getpid()}) is running this campaign there;"
        " allowed: wait for it, or another --results"
    ]


def test_a_name_that_could_name_another_file_or_not_be_printed_is_refused():
    for name in ("", ".", "..", "a/b", "a\n", "a\u202eb", "a\u2028"):
        with pytest.raises(ValueError, match="allowed: plain names"):
            plain_name(name)
    assert plain_name("a b-1.ü") == "a b-1.ü"


def test_a_repeated_run_has_the_seed_of_the_other_and_is_resumed_apart(tmp_path, header):
    other = Reproduced("quick-elsewhere-20261101-000000", "f" * 64)
    repeated = replace(header, reproduces=other)
    plain, path = make(tmp_path, header), make(tmp_path, repeated)
    seed = run_seed(other.digest, other.run)
    assert (load_header(path).seed, load_header(path).reproduces) == (seed, other)
    assert load_header(plain).seed == run_seed(header.digest, plain.name) != seed
    for begun, resumed in ((header, plain), (repeated, path)):
        with open_run(tmp_path, begun) as folder:
            assert (folder.path, folder.resumed) == (resumed, True)
    assert (path / "lock").stat().st_mode & 0o777 == 0o600  # no stranger can hold it


def given_away(part: str) -> Callable[[Path], None]:
    return lambda run: os.chown(run / part, 65534, 65534)


def behind_a_link(run: Path) -> None:
    run.rename(run.parent.with_name("elsewhere"))
    run.symlink_to(run.parent.with_name("elsewhere"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize(
    "plant",
    [
        # A stranger's samples gave a slowdown with exit 0.
        given_away(""),
        given_away("run.json"),
        given_away("samples/lammps.jsonl"),
        lambda run: (run / "samples").chmod(0o777),
        behind_a_link,
    ],
)
def test_a_planted_run_is_not_resumed(tmp_path, header, plant):
    results = tmp_path / "results"
    path = make(results, header)
    plant(path)
    with open_run(results, header) as folder:
        assert (folder.resumed, folder.path != path) == (False, True)


def test_latest_leads_to_the_run_that_was_opened_last(tmp_path, header):
    first = make(tmp_path, header)
    assert os.readlink(tmp_path / "latest") == first.name
    later = replace(header, started_s=header.started_s + 1)
    with open_run(tmp_path, later, fresh=True) as folder:
        assert (tmp_path / "latest").resolve() == folder.path
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_symlink()) == ["latest"]
    (tmp_path / "latest").unlink()
    (tmp_path / "latest").mkdir()  # a folder of that name stays
    make(tmp_path, later)
    assert not (tmp_path / "latest").is_symlink()


def test_the_latest_run_is_resumed_unless_it_is_finished(tmp_path, header, monkeypatch):
    cancelled: list[Path] = []
    monkeypatch.setattr(folders, "cancel_jobs", cancelled.append)

    def opened(*, fresh: bool = False, slurm: bool = False, later_s: float = 0.0) -> Path:
        later = replace(header, started_s=header.started_s + later_s)
        with open_run(tmp_path, later, fresh=fresh, slurm=slurm) as folder:
            assert load_header(folder.path).seed is not None
            return folder.path

    first = opened(slurm=True)
    second = opened(fresh=True, later_s=1.0)
    assert [path.name for path in (first, second)] == [header.run, f"{header.run}-2"]
    assert cancelled == []
    assert opened(slurm=True) == second
    assert cancelled == [second]
    save_header(second, replace(load_header(second), finished_s=header.started_s + 9.0))
    third = opened(later_s=3.0)
    assert third.name == f"{header.run}-3"
    # Of another campaign, machine or request, or finished: those are not told of.
    others: list[dict[str, Any]] = [{"campaign": "x"}, {"machine": "x"}, {"digest": header.digest}]
    for changes in others:
        other = replace(header, **{"digest": "0" * 64} | changes)
        assert find_differing_run(tmp_path, other) is None
    other = replace(header, digest="0" * 64)
    assert find_differing_run(tmp_path, other) == (third, load_header(third))
    save_header(third, replace(load_header(third), schema=4))  # of another version
    assert find_differing_run(tmp_path, other) == (first, load_header(first))


def test_what_keeps_a_run_from_being_resumed_is_named(header):
    def resolved_header(**changes: Any) -> RunHeader:
        parts = {"campaign": {"pairs": {"cap": 6}}, "machine": {"nic": 1}, "hostname": "a"}
        return replace(header, resolved={**parts, **changes})

    for changes, named in (
        ({}, []),
        ({"campaign": {"pairs": {"cap": 7}, "rest": 2}}, ["pairs", "rest"]),
        ({"machine": {}, "hostname": "b"}, ["nic of the machine's file", "host"]),
        ({"nodelist": "n1", "checks": {"x": "1"}}, ["--nodelist", "checks"]),
    ):
        assert (
            differing_parts(resolved_header(**changes), resolved_header())
            == differing_parts(resolved_header(), resolved_header(**changes))
            == named
        )


def test_what_a_killed_session_left_is_waited_for_killed_and_named(tmp_path, monkeypatch):
    left, killed = [[7, 8], [7], []], list[int]()
    monkeypatch.setattr(
        folders, "processes_of", lambda _: left.pop(0) if len(left) > 1 else left[0]
    )
    monkeypatch.setattr("os.kill", lambda pid, _: killed.append(pid))
    monkeypatch.setattr("time.sleep", lambda _: None)
    folders.await_leftovers(tmp_path)
    assert killed == []
    monkeypatch.setattr(folders, "LEFTOVERS_S", -1.0)
    left[:] = [[7, 8], [7], []]
    folders.await_leftovers(tmp_path)
    assert killed == [7, 8, 7]
    monkeypatch.setattr(folders, "KILLED_S", 0.0)
    left[:] = [[7, 8]]
    with pytest.raises(MachineError, match=r"processes of an earlier run do not end: 7 8$"):
        folders.await_leftovers(tmp_path)


NIGHT = """\
name: night
title: Words for people
workloads:
  - {check: stream, case: small, set: {iterations: 10, array_most: 64MiB}, expect: 2s}
  - {check: lammps, set: {steps: 150, warmups: 2}}
arms: [off, on, spin, aa]
pairs: {floor: 6, cap: 12, precision: 0.05, block: 3}
injector: {name: perftest, message: 64KiB, rate: 500MB/s}
verify: {min_share: 0.25, retries: 3}
run_timeout: 2min
seed: 7
"""
SWEEP = """\
name: night
workloads:
  - {check: membench, case: s, sweep: {cores: all}, set: {duration_s: 3}}
arms: [off, on]
"""
SITE = {
    "name": "box",
    "description": "a cluster",
    "origins": {"policy": "hetjob", "nodes": 1},
    "injector": "perftest",
    "facts": {"cores": 4, "sockets": 2, "numa_nodes": 2, "llc": "70MiB", "memory": "64GiB"},
}


def expanded(folder: Path, text: str, machine: Machine) -> Campaign:
    (folder / "c.yaml").write_text(text)
    checks = checks_in(ROOT / "reframe_tests")
    return load_campaign(marked_yaml.load(folder / "c.yaml"), checks, machine)


@pytest.mark.parametrize(
    ("text", "recorded"),
    [
        (NIGHT, "e846723d901a8cc83ac08ba105f4eb370887bcc56347d77b73c2291ee46cb326"),
        (SWEEP, "1300d3fc06f7c28bbe0c32d58a4a7eb605e1a7ffbfdc30a936f4b15956640fc3"),
    ],
)
def test_runs_that_began_before_there_were_factors_are_resumed(tmp_path, text, recorded):
    """Digests as commit 9b5889b made them, before campaigns had factors."""
    machine = Machine.model_validate(SITE)
    loaded = expanded(tmp_path, text, machine)
    assert records.digest_of(resolved_request(loaded, machine, "n1")) == recorded


def digest_of(request: Request, host: str = "n1") -> str:
    return records.digest_of(resolved_request(request.campaign, request.machine, host))


def test_what_is_as_by_default_may_be_spelled_or_not(quick):
    """A version that adds an option resumes the runs of one that did not have it."""
    machine = quick.machine
    needed = {name: getattr(machine, name) for name in ("name", "description", "injector")}
    bare = {"origins": {"policy": "same_host"}, **needed}
    spelled = {"origins": {"policy": "same_host", "access": [], "nodes": 1}, "nic": None, **needed}
    first, second = (
        resolved_request(quick.campaign, machine.model_validate(text), "n1")
        for text in (bare, spelled)
    )
    assert first == second


def test_what_shapes_samples_makes_another_run_and_texts_for_people_do_not(quick):
    first = digest_of(quick)
    campaign, machine = quick.campaign, quick.machine
    assert digest_of(quick, host="n2") != first
    for other in (
        replace(quick, campaign=campaign.model_copy(update={"seed": campaign.seed + 1})),
        replace(quick, machine=machine.model_copy(update={"reference_tolerance": 0.2})),
        replace(quick, machine=machine.with_origins(2)),
    ):
        assert digest_of(other) != first
    texts = campaign.model_copy(update={"title": "another", "description": "text"})
    assert digest_of(replace(quick, campaign=texts)) == first


def test_the_header_says_what_is_asked_of_each_case(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(
        "name: c\nworkloads: [check: stream, {check: lammps, factors: {rate: [0, 50%, full]}}]\n"
        "arms: [off, on, aa]\nverify: {min_share: 0.25, retries: 3}\n"
    )
    request = prepare(path, "localhost")
    requirements = requirements_of(request)
    # By hand: level 0 of `rate` is the baseline; names leave out the full rate.
    lammps = ["off", "on@rate=50%", "on", "aa"]
    assert requirements.cases == {"stream": ["off", "on", "aa"], "lammps": lammps}
    assert (requirements.min_share, requirements.retries) == (0.25, 3)
    path.write_text("name: c\nworkloads: [check: stream]\narms: [off, on]\n")
    silent = prepare(path, "localhost")
    assert requirements_of(silent).min_share == 0.1  # site/localhost.yaml


@pytest.mark.parametrize("schema", [1, 4, 6])
def test_a_header_of_another_schema_is_refused(tmp_path, schema):
    (tmp_path / "run.json").write_text(json.dumps({**made_header().as_dict(), "schema": schema}))
    refusal = f"/run.json: schema: {schema} found; allowed: 5; nimc 0.1.0"
    with pytest.raises(InputError, match=refusal):
        load_header(tmp_path)
