"""Fixtures that build membench once, and start a minicluster once, for all tests of a session."""

import ctypes
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.nimc.minicluster.driven import Cluster, cluster_of
from tests.reframe_tests.reframe_call import ran, succeeded

MEMBENCH = Path(__file__).parents[2] / "reframe_tests" / "src" / "membench"


def document(program, *words):
    """Run membench, which must succeed, and return the JSON document that it prints."""
    return json.loads(succeeded(ran(program, *words, "-j", "-")))


@contextmanager
def at_work(*words):
    """Runs a program until the context ends; yields its PID."""
    with subprocess.Popen([*map(str, words)], stdout=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def refused(done, why="wrong results"):
    """Assert that membench has refused its own results with the reason `why`."""
    assert (done.returncode, "FOM" in done.stdout) == (3, False)
    assert why in done.stderr


def library(folder: Path, name: str) -> ctypes.CDLL:
    """Compile one source file of membench to a library; a test can call the library's functions."""
    path = folder / f"{name}.so"
    source = MEMBENCH / f"{name}.c"
    succeeded(ran("cc", "-std=c11", "-shared", "-fPIC", source, "-o", path))
    return ctypes.CDLL(str(path))


def make(target: str, out: Path, source: Path = MEMBENCH, *settings: str) -> Path:
    """Build membench with `make`; skip the test if the host has no compiler or no `make`."""
    if shutil.which("cc") is None or shutil.which("make") is None:
        pytest.skip("needs cc and make")
    succeeded(ran("make", "-s", "-C", source, target, f"OUT={out}", *settings))
    return out / {"all": "membench", "asan": "membench-asan"}[target]


@pytest.fixture(scope="session")
def three_nodes() -> Iterator[Cluster]:
    """A running minicluster: two nodes are targets, one is an origin, and veth links connect them.

    Each test must leave the nodes idle.
    """
    yield from cluster_of(3)


@pytest.fixture(scope="session")
def membench(tmp_path_factory):
    return make("all", tmp_path_factory.mktemp("membench"))


@pytest.fixture(scope="session")
def membench_sanitized(tmp_path_factory):
    return make("asan", tmp_path_factory.mktemp("membench-asan"))


@pytest.fixture(scope="session")
def membench_changed(tmp_path_factory):
    """A function that builds membench after it has changed a copy of the source.

    The argument of the function maps the name of a file to pairs: (old text, new text).
    """

    def build(changes):
        folder = tmp_path_factory.mktemp("membench-changed")
        source = folder / "src"
        shutil.copytree(MEMBENCH, source, ignore=shutil.ignore_patterns("membench*"))
        for name, pairs in changes.items():
            text = (source / name).read_text()
            for old, new in pairs:
                assert old in text, (name, old)
                text = text.replace(old, new)
            (source / name).write_text(text)
        return make("all", folder, source, "CFLAGS=-O0", "WARNINGS=-std=c11 -w")

    return build
