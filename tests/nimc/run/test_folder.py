"""The folder of a run: its lock, and which sessions of `nimc run` may add samples to it."""

import errno
import fcntl
import json
import os
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from nimc.campaign.campaign_file import load_campaign
from nimc.campaign.plan import Request
from nimc.campaign.request import load_request
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
from records import run as records
from records import yaml_file
from records.checkout import ROOT
from records.errors import InputError, MachineError
from records.files import reason_to_distrust
from records.machine.site import Machine
from records.order import run_seed
from records.run import Reproduced, RunHeader, load_header, plain_name, save_header
from tests.analysis.synthetic import header as made_header
from tests.messages import assert_message


@pytest.fixture(scope="module")
def quick() -> Request:
    return load_request(ROOT / "campaigns/quick.yaml", "localhost")


@pytest.fixture(scope="module")
def header(quick: Request) -> RunHeader:
    return new_header(quick)


def test_a_file_system_without_locks_is_not_taken_for_another_nimc(tmp_path, monkeypatch, header):
    """flock() fails like this on Lustre if it is mounted without the option flock."""

    def flock(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(MachineError, match=r"lock: Function not implemented: .*flock"):
        open_run(tmp_path, header).__enter__()


def make_unfinished(results: Path, header: RunHeader) -> Path:
    """Make an unfinished run, with the files that `nimc run` leaves."""
    with open_run(results, header) as folder:
        (folder.path / "samples").mkdir()
        (folder.path / "samples/lammps.jsonl").touch()
    return folder.path


def test_only_one_of_three_simultaneous_sessions_gets_the_run(tmp_path, monkeypatch, header):
    """Without a lock, each of them would find no run, and would make one."""
    begun, ended = threading.Barrier(3), threading.Barrier(3)

    def find_slowly(*words: Any) -> Any:
        latest = find_latest(*words)
        time.sleep(0.1)  # without a lock, the others would find no run in this time either
        return latest

    def begin(_: int) -> str:
        """Return the name of the opened run, or the reason of the refusal."""
        begun.wait()
        try:
            with open_run(tmp_path, header) as folder:
                ended.wait()
                return folder.path.name
        except InputError as error:
            ended.wait()
            return str(error)

    monkeypatch.setattr(folders, "find_latest", find_slowly)
    with ThreadPoolExecutor(3) as pool:
        run, *refusals = sorted(pool.map(begin, range(3)), key=len)
    assert {path.parent.resolve().name for path in tmp_path.glob("*/run.json")} == {run}
    assert len(refusals) == 2
    for line in refusals:
        assert_message(line, f"{tmp_path / run}", f"process {os.getpid()}", allowed="wait for it")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\n", "a\u202eb", "a\u2028"])
def test_a_name_that_is_a_path_or_cannot_be_printed_is_refused(name):
    with pytest.raises(ValueError, match=r"; allowed: .*'/'"):
        plain_name(name)


def test_a_plain_name_may_have_blanks_and_any_letters():
    assert plain_name("a b-1.ü") == "a b-1.ü"


REPRODUCED = Reproduced("quick-elsewhere-20261101-000000", "f" * 64)


def test_a_run_that_reproduces_another_run_has_the_seed_of_that_run(tmp_path, header):
    path = make_unfinished(tmp_path, replace(header, reproduces=REPRODUCED))
    stored = load_header(path)
    assert stored.reproduces == REPRODUCED
    assert stored.seed == run_seed(REPRODUCED.digest, REPRODUCED.run)


def test_a_reproduction_and_a_run_of_the_same_campaign_are_resumed_separately(tmp_path, header):
    reproduction = replace(header, reproduces=REPRODUCED)
    own_path, path = make_unfinished(tmp_path, header), make_unfinished(tmp_path, reproduction)
    seed = load_header(own_path).seed
    assert seed == run_seed(header.digest, own_path.name) != load_header(path).seed
    for requested, resumed in ((header, own_path), (reproduction, path)):
        with open_run(tmp_path, requested) as folder:
            assert (folder.path, folder.resumed) == (resumed, True)


def test_no_other_user_can_hold_the_lock(tmp_path, header):
    path = make_unfinished(tmp_path, header)
    assert (path / "lock").stat().st_mode & 0o777 == 0o600


def give_away(part: str) -> Callable[[Path], None]:
    """Return a function that gives a part of a run (a file, or '' for all) to another user."""
    return lambda run: os.chown(run / part, 65534, 65534)


def move_behind_a_link(run: Path) -> None:
    run.rename(run.parent.with_name("elsewhere"))
    run.symlink_to(run.parent.with_name("elsewhere"))


def let_others_write_samples(run: Path) -> None:
    (run / "samples").chmod(0o777)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize(
    "plant",
    [
        give_away(""),
        give_away("run.json"),
        give_away("samples/lammps.jsonl"),
        let_others_write_samples,
        move_behind_a_link,
    ],
)
def test_a_run_that_another_user_may_have_planted_is_not_resumed(tmp_path, header, plant):
    """If it were resumed, samples of another user would count in the result."""
    results = tmp_path / "results"
    path = make_unfinished(results, header)
    plant(path)
    with open_run(results, header) as folder:
        assert (folder.resumed, folder.path != path) == (False, True)


def test_latest_leads_to_the_run_that_was_opened_last(tmp_path, header):
    first = make_unfinished(tmp_path, header)
    assert os.readlink(tmp_path / "latest") == first.name
    later = replace(header, started_s=header.started_s + 1)
    with open_run(tmp_path, later, fresh=True) as folder:
        assert (tmp_path / "latest").resolve() == folder.path
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_symlink()) == ["latest"]


def test_a_folder_with_the_name_of_the_link_is_not_replaced(tmp_path, header):
    (tmp_path / "latest").mkdir()
    make_unfinished(tmp_path, header)
    assert not (tmp_path / "latest").is_symlink()


def opened_run(
    results: Path,
    header: RunHeader,
    *,
    fresh: bool = False,
    uses_slurm: bool = False,
    later_s: float = 0.0,
) -> Path:
    """Open a run that starts `later_s` after the header, and return its folder."""
    later = replace(header, started_s=header.started_s + later_s)
    with open_run(results, later, fresh=fresh, uses_slurm=uses_slurm) as folder:
        assert load_header(folder.path).seed is not None
        return folder.path


@pytest.fixture
def cancelled(monkeypatch) -> list[Path]:
    """Returns a list of the runs whose jobs are cancelled."""
    runs: list[Path] = []
    monkeypatch.setattr(folders, "cancel_jobs", runs.append)
    return runs


def test_the_latest_run_is_resumed_and_its_jobs_are_cancelled(tmp_path, header, cancelled):
    first = opened_run(tmp_path, header, uses_slurm=True)
    second = opened_run(tmp_path, header, fresh=True, later_s=1.0)
    assert [path.name for path in (first, second)] == [header.run, f"{header.run}-2"]
    assert cancelled == []
    assert opened_run(tmp_path, header, uses_slurm=True) == second
    assert cancelled == [second]


def finish(run: Path) -> None:
    header = load_header(run)
    save_header(run, replace(header, finished_s=header.started_s + 9.0))


def test_a_finished_run_is_not_resumed(tmp_path, header):
    finish(opened_run(tmp_path, header))
    assert opened_run(tmp_path, header, later_s=3.0).name == f"{header.run}-2"


OTHER_DIGEST = "0" * 64


@pytest.mark.parametrize(
    ("campaign", "machine", "digest"),
    [("x", None, OTHER_DIGEST), (None, "x", OTHER_DIGEST), (None, None, None)],
)
def test_no_differing_run_is_found_for_another_campaign_or_machine_or_the_same_request(
    tmp_path, header, campaign, machine, digest
):
    """A differing run has the same campaign and machine, but another request.

    None means the value of the existing run.
    """
    opened_run(tmp_path, header)
    requested = replace(
        header,
        campaign=campaign or header.campaign,
        machine=machine or header.machine,
        digest=digest or header.digest,
    )
    assert find_differing_run(tmp_path, requested) is None


def test_the_latest_unfinished_run_of_another_request_is_the_differing_run(tmp_path, header):
    first = opened_run(tmp_path, header)
    second = opened_run(tmp_path, header, fresh=True, later_s=1.0)
    third = opened_run(tmp_path, header, fresh=True, later_s=2.0)
    requested = replace(header, digest=OTHER_DIGEST)
    assert find_differing_run(tmp_path, requested) == (third, load_header(third))
    finish(third)
    assert find_differing_run(tmp_path, requested) == (second, load_header(second))
    save_header(second, replace(load_header(second), schema=4))  # a run of another version
    assert find_differing_run(tmp_path, requested) == (first, load_header(first))


RESOLVED = {"campaign": {"pairs": {"cap": 6}}, "machine": {"nic": 1}, "hostname": "a"}


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({}, []),
        ({"campaign": {"pairs": {"cap": 7}, "rest": 2}}, ["pairs", "rest"]),
        ({"machine": {}, "hostname": "b"}, ["nic of the machine's file", "host"]),
        ({"nodelist": "n1", "checks": {"x": "1"}}, ["--nodelist", "checks"]),
    ],
)
def test_parts_that_keep_a_run_from_being_resumed_are_named(header, changes, parts):
    old = replace(header, resolved=RESOLVED)
    new = replace(header, resolved={**RESOLVED, **changes})
    assert differing_parts(new, old) == parts
    assert differing_parts(old, new) == parts


@dataclass
class Leftovers:
    """A stand-in for processes of a killed session. Each listing gives the next list of PIDs."""

    lists: list[list[int]]
    killed: list[int] = field(default_factory=list)

    def next_list(self, _: Path) -> list[int]:
        return self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]


@pytest.fixture
def leftovers(monkeypatch) -> Leftovers:
    processes = Leftovers([[7, 8], [7], []])
    monkeypatch.setattr(folders, "processes_of", processes.next_list)
    monkeypatch.setattr("os.kill", lambda pid, _: processes.killed.append(pid))
    monkeypatch.setattr("time.sleep", lambda _: None)
    return processes


def test_processes_of_a_killed_session_may_end_by_themselves(tmp_path, leftovers):
    folders.await_leftovers(tmp_path)
    assert (leftovers.lists, leftovers.killed) == ([[]], [])


def test_processes_that_do_not_end_in_time_are_killed(tmp_path, monkeypatch, leftovers):
    monkeypatch.setattr(folders, "LEFTOVERS_GRACE_S", -1.0)
    folders.await_leftovers(tmp_path)
    assert leftovers.killed == [7, 8, 7]


def test_processes_that_cannot_be_killed_are_named(tmp_path, monkeypatch, leftovers):
    monkeypatch.setattr(folders, "LEFTOVERS_GRACE_S", -1.0)
    monkeypatch.setattr(folders, "KILL_GRACE_S", 0.0)
    leftovers.lists = [[7, 8]]
    with pytest.raises(MachineError, match=r": 7 8$"):
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


@pytest.mark.parametrize(
    ("text", "recorded"),
    [
        (NIGHT, "e846723d901a8cc83ac08ba105f4eb370887bcc56347d77b73c2291ee46cb326"),
        (SWEEP, "1300d3fc06f7c28bbe0c32d58a4a7eb605e1a7ffbfdc30a936f4b15956640fc3"),
    ],
)
def test_runs_that_began_before_there_were_factors_are_resumed(tmp_path, text, recorded):
    """The digests are those of commit 9b5889b, before campaigns had factors."""
    machine = Machine.model_validate(SITE)
    path = tmp_path / "c.yaml"
    path.write_text(text)
    checks = checks_in(ROOT / "reframe_tests")
    campaign = load_campaign(yaml_file.load(path), checks, machine)
    assert records.digest_of(resolved_request(campaign, machine, "n1")) == recorded


def digest_of(request: Request, host: str = "n1") -> str:
    return records.digest_of(resolved_request(request.campaign, request.machine, host))


def test_a_written_default_does_not_change_the_request(quick):
    """So a version with a new option can resume runs of a version without this option."""
    machine = quick.machine
    required = {name: getattr(machine, name) for name in ("name", "description", "injector")}
    without_defaults = {"origins": {"policy": "same_host"}, **required}
    with_defaults = {
        "origins": {"policy": "same_host", "access": [], "nodes": 1},
        "nic": None,
        **required,
    }
    first, second = (
        resolved_request(quick.campaign, machine.model_validate(fields), "n1")
        for fields in (without_defaults, with_defaults)
    )
    assert first == second


def test_changes_that_affect_samples_make_another_run(quick):
    campaign, machine = quick.campaign, quick.machine
    changed_requests = [
        replace(quick, campaign=campaign.model_copy(update={"seed": campaign.seed + 1})),
        replace(quick, machine=machine.model_copy(update={"reference_tolerance": 0.2})),
        replace(quick, machine=machine.with_origins(2)),
    ]
    digests = {digest_of(quick, host="n2"), *map(digest_of, changed_requests)}
    assert len(digests) == 4
    assert digest_of(quick) not in digests


def test_changed_titles_and_descriptions_make_no_other_run(quick):
    texts = quick.campaign.model_copy(update={"title": "another", "description": "text"})
    assert digest_of(replace(quick, campaign=texts)) == digest_of(quick)


def test_requirements_are_the_treatments_of_each_case_and_limits(tmp_path):
    """By hand: level 0 of `rate` is the baseline. Names of treatments omit the full rate."""
    path = tmp_path / "c.yaml"
    path.write_text(
        "name: c\nworkloads: [check: stream, {check: lammps, factors: {rate: [0, 50%, full]}}]\n"
        "arms: [off, on, aa]\nverify: {min_share: 0.25, retries: 3}\n"
    )
    requirements = requirements_of(load_request(path, "localhost"))
    assert requirements.cases == {
        "stream": ["off", "on", "aa"],
        "lammps": ["off", "on@rate=50%", "on", "aa"],
    }
    assert (requirements.min_share, requirements.retries) == (0.25, 3)


def test_the_default_of_min_share_comes_from_the_machines_file(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("name: c\nworkloads: [check: stream]\narms: [off, on]\n")
    requirements = requirements_of(load_request(path, "localhost"))
    assert requirements.min_share == 0.1  # site/localhost.yaml


@pytest.mark.parametrize("schema", [1, 4, 6])
def test_a_header_of_another_schema_is_refused(tmp_path, schema):
    (tmp_path / "run.json").write_text(json.dumps({**made_header().as_dict(), "schema": schema}))
    with pytest.raises(InputError) as error:
        load_header(tmp_path)
    location = f"{tmp_path}/run.json: schema"
    assert_message(str(error.value), location, f"{schema}", allowed="5; nimc 0.1.0")


def test_a_run_below_a_default_access_list_is_writable_by_its_user_only(tmp_path, header):
    """The kernel ignores the umask there. A shared folder of a project often has such a list."""
    # <linux/posix_acl_xattr.h>: version 2; then tag, permissions and id of each entry. The entries
    # are: owner, group, the group 4321, mask and others.
    entries = ((0x01, 7, -1), (0x04, 7, -1), (0x08, 7, 4321), (0x10, 7, -1), (0x20, 5, -1))
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(tmp_path, "system.posix_acl_default", acl)
    except OSError as error:
        pytest.skip(f"no access control lists: {error.strerror}")
    with open_run(tmp_path, header) as folder:
        assert folder.path.stat().st_mode & 0o22 == 0
        assert reason_to_distrust(folder.path) is None
        (folder.path / "samples").mkdir()
        assert reason_to_distrust(folder.path / "samples") is None
    latest = find_latest(tmp_path, header.digest)
    assert latest
    assert latest[0] == folder.path
