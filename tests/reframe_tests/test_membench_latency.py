"""membench latency: a chain through every line, beside a load, in pages that it really has."""

import ctypes
import itertools
import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.reframe_tests.conftest import document, library, refused, run

THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
PR_SET_THP_DISABLE = 41


@pytest.mark.slow
@pytest.mark.parametrize("size", ["512B", "48KiB", "1MiB"])
def test_latency_under_sanitizers(membench_sanitized, size):
    got = document(membench_sanitized, "latency", "-s", size, "-d", 0.02)
    assert got["kernel"] == "latency"
    assert got["latency_s"] >= got["least_latency_s"] > 0
    assert [core["latency_s"] for core in got["cores"]] == [got["latency_s"]]
    assert "load" not in got
    assert "rate_b_s" not in got


def test_a_load_runs_on_all_other_cores(membench):
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        pytest.skip("needs two processors")
    first, second = cpus
    words = ("--cpus", f"{second},{first}", "--load", "nt_write", "-s", "1MiB", "-d", 2)
    got = document(membench, "latency", *words)
    assert [core["cpu"] for core in got["cores"]] == [second, first]
    assert got["load"]["kernel"] == "nt_write"
    assert got["load"]["cores"] == 1
    assert got["load"]["rate_b_s"] == got["cores"][1]["rate_b_s"]
    # Chain and the load's only array.
    assert got["memory_b"] == 2**20 + got["load"]["array_b"]


class Chain(ctypes.Structure):
    _fields_ = (("at", ctypes.c_void_p), ("lines", ctypes.c_size_t))


@pytest.mark.parametrize("line_b", [64, 128])
def test_the_chain_visits_each_line_once_in_no_order(tmp_path, line_b):
    """Followed here, from its pointers."""
    lines, chain = 1000, Chain()
    memory = ctypes.create_string_buffer(lines * line_b)
    start = ctypes.addressof(memory)
    make = library(tmp_path, "chain").chain_make
    make.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
    make.restype = ctypes.c_bool
    assert make(ctypes.byref(chain), start, len(memory), line_b)
    assert chain.lines == lines
    at, visited = start, []
    for _ in range(lines):
        visited.append((at - start) / line_b)
        at = ctypes.c_void_p.from_address(at).value
    assert at == start
    assert sorted(visited) == list(range(lines))
    # Neighbours in memory are next to each other in the walk as seldom as chance has it: 2 of 1000.
    near = sum(abs(a - b) == 1 for a, b in itertools.pairwise(visited))
    assert near < 20


def test_transparent_huge_pages_are_had(membench, tmp_path):
    """The kernel's account of the whole process, which membench does not read, agrees."""
    if not THP.exists() or "[never]" in THP.read_text():
        pytest.skip("the system gives no transparent huge pages")
    words = [membench, "latency", "--pages", "transparent", "-s", "7MiB", "-d", "1"]
    path, most_kib = tmp_path / "out.json", 0
    with subprocess.Popen([*map(str, words), "-j", path], stdout=subprocess.PIPE) as process:
        account = Path(f"/proc/{process.pid}/smaps_rollup")
        while process.poll() is None and most_kib < 8192:
            try:
                rows = account.read_text().splitlines()
            except (FileNotFoundError, ProcessLookupError):
                break
            found = [int(row.split()[1]) for row in rows if row.startswith("AnonHugePages")]
            most_kib = max([most_kib, *found])
            time.sleep(0.01)
        process.communicate(timeout=30)
    assert process.returncode == 0
    got = json.loads(path.read_text())
    assert got["pages"] == "transparent"
    # Four pages of 2 MiB hold 7 MiB.
    assert got["huge_b"] == got["memory_b"] == 8 * 2**20 == most_kib * 1024


def test_transparent_huge_pages_that_are_not_had_give_no_figure(membench):
    def forbid():
        ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)

    words = ("read", "-n", 1, "-s", "4MiB", "-d", 0.05)
    done = run(membench, *words, "--pages", "transparent", preexec_fn=forbid)
    refused(done, "transparent huge pages")
    got = document(membench, *words)
    assert (got["pages"], got["huge_b"]) == ("normal", 0)
