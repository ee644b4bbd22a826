"""What decides that an environment is built again: its digest, and the lock of a site."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import time
from pathlib import Path

import pytest

from nimc.base.errors import MachineError
from nimc.spack import setup, tool
from nimc.spack.build import build, digest_of, placed
from tests.nimc.spack.fake import calls


def test_digest_follows_every_input(ready):
    place, settings = ready
    text = placed(place, settings, "stream")
    first = digest_of(place, settings, "stream", text)
    assert digest_of(place, settings, "stream", text) == first
    assert digest_of(place, settings, "stream", text + " ") != first
    (place.config / "packages.yaml").write_text("packages: {gcc: {}}\n")
    assert digest_of(place, settings, "stream", text) != first


@pytest.fixture
def locked(tmp_path, monkeypatch):
    """A lock that the site committed for the machine `here`; the environments are a copy."""
    copy = tmp_path / "spack_envs"
    shutil.copytree(setup.ENVIRONMENTS, copy)
    monkeypatch.setattr("nimc.spack.build.ENVIRONMENTS", copy)
    path = copy / "locks" / "here" / "stream.lock"
    path.parent.mkdir(parents=True)
    path.write_text('{"roots": [{"hash": "aaa", "spec": "stream"}], "note": "committed"}')
    return path


def test_a_committed_lock_is_taken_and_decides_what_is_built(spack_root, ready, locked):
    place, settings = ready
    script = (spack_root / "bin" / "spack").read_text()
    # Spack leaves a lock alone that has all that the environment asks for.
    (spack_root / "bin" / "spack").write_text(script.replace("*concretize*)", "*--force*)"))
    built = build(place, settings, "stream", 1, print)
    assert json.loads(Path(built.lock).read_text())["note"] == "committed"
    assert [call for call in calls(spack_root) if "--force" in call] == []
    locked.write_text(locked.read_text().replace("committed", "moved on"))
    build(place, settings, "stream", 1, print)
    assert json.loads(Path(built.lock).read_text())["note"] == "moved on"


def test_a_committed_lock_that_cannot_be_read_is_named(ready, locked):
    locked.write_text('{"roots": [')
    with pytest.raises(MachineError, match=r"here/stream\.lock: not a lock of Spack's"):
        build(*ready, "stream", 1, print)


def test_a_committed_lock_of_another_choice_is_refused(ready, locked):
    locked.write_text('{"roots": [{"hash": "zzz", "spec": "stream@4"}]}')
    with pytest.raises(
        MachineError, match=r"here/stream\.lock: does not match the stream environment"
    ):
        build(*ready, "stream", 1, print)


def _hold(path, seconds, order):
    with tool.locked(path):
        order.append(time.monotonic())
        time.sleep(seconds)
        order.append(time.monotonic())


def test_two_holders_never_overlap(tmp_path):
    with multiprocessing.Manager() as manager:
        order = manager.list()
        both = [
            multiprocessing.Process(target=_hold, args=(tmp_path / "x.lock", 0.2, order))
            for _ in range(2)
        ]
        for process in both:
            process.start()
        for process in both:
            process.join()
        times = list(order)
    assert len(times) == 4
    assert times == sorted(times)
    assert times[2] >= times[1]
