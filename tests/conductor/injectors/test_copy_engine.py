"""The program copy_engine with a library that stands for the driver's, and a block of its writes.

The library copies with a processor, so that no figure here is one of a GPU.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conductor.injectors import INJECTORS, copy_engine
from conductor.injectors.base import Arrived, Fault, Row
from tests.conductor.conftest import PACE, lasting
from tests.conductor.injectors.printed import meanings

SOURCE = Path(copy_engine.__file__).parents[1] / "copy_engine"
FAKE = Path(__file__).parent / "fake_cuda.c"
FAKE_NVML = Path(__file__).parents[1] / "fake_nvml.c"
MIB = 1 << 20

pytestmark = pytest.mark.skipif(
    not (shutil.which("cc") and shutil.which("make")), reason="needs cc and make"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The program, with the sanitizers too, and the driver's stand-in."""
    out = tmp_path_factory.mktemp("copy_engine")
    make = ["make", "-s", "-C", SOURCE, "all", "asan", f"OUT={out}"]
    subprocess.run(make, check=True, timeout=120)
    library = ["cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o"]
    for name, source in (("libcuda.so.1", FAKE), ("libnvidia-ml.so.1", FAKE_NVML)):
        subprocess.run([*library, out / name, source], check=True, timeout=120)
    return out


def run(folder, *words, program="copy_engine", **environment):
    return subprocess.run(
        [folder / program, *map(str, words)],
        env={**os.environ, "LD_LIBRARY_PATH": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("words", [["--both"], ["-f", 3 * MIB, "-s", 1001], ["-r", 50e6]])
def test_what_has_arrived_in_memory_is_what_the_rows_claim(folder, words):
    done = run(folder, "-d", 1.5, *words, program="copy_engine-asan", ASAN_OPTIONS=NO_LEAKS)
    assert (done.returncode, done.stderr) == (0, "")
    found = meanings("copy_engine", done.stdout)
    rows = [row for row in found if isinstance(row, Row)]
    arrived = [one for one in found if isinstance(one, Arrived)]
    claimed_b = sum(row.rate_b_s * row.over_s for row in rows)
    copied_b = int(re.search(r"^copied (\d+) B$", done.stdout, re.MULTILINE)[1])
    assert len(rows) == len(arrived) >= 2
    assert sum(row.over_s for row in rows) > 0.2 * len(rows)
    # At most 4 batches of 16 MiB are under way.
    assert claimed_b == pytest.approx(arrived[-1].bytes_b, abs=4.1 * 16 * MIB)
    assert arrived[-1].bytes_b <= copied_b
    assert {one.transport for one in arrived} == {"copy engine"}


#: The program ends by being stopped, and frees nothing.
NO_LEAKS = "detect_leaks=0"


def test_a_rate_is_kept(folder):
    """1 s at 40 MB/s, messages of 1 MiB that are split, is 40 MB; never more, and on a busy host
    less: it catches up with a quarter of a second."""
    done = run(folder, "-d", 1, "-r", 40e6, "-s", MIB)
    copied_b = int(re.search(r"^copied (\d+) B$", done.stdout, re.MULTILINE)[1])
    assert 10e6 < copied_b < 40.4e6


def test_bursts_are_batches_of_a_period(folder):
    """20 MB/s in periods of 50 ms: 1 MB a batch, in copies of 64 KiB; 15 of them are 983,040 B."""
    done = run(folder, "-d", 0.7, "-r", 20e6, "-e", 0.05, "-s", 65536)
    sizes_b = [int(size_b) for size_b in re.findall(r"^arrived (\d+) B$", done.stdout, re.M)]
    assert sizes_b
    assert [size_b % (15 * 65536) for size_b in sizes_b] == [0] * len(sizes_b)


def test_reads_leave_no_mark(folder):
    found = meanings("copy_engine", run(folder, "-d", 0.6, "--get").stdout)
    assert found
    assert all(isinstance(one, Row) for one in found)
    assert not INJECTORS["copy_engine_read"].reports_arrivals


@pytest.mark.parametrize(
    ("words", "environment", "status", "said"),
    [
        (["-s", "64KiB"], {}, 2, "--size 64KiB: a number from 1 to 1e+12 is needed"),
        (["-r", "0"], {}, 2, "--rate 0: a number from 1 to 1e+15 is needed"),
        (["-m", "1024"], {}, 2, "--node 1024: a number from 0 to 1023 is needed"),
        (["-m", "1023"], {}, 3, "--node 1023: Invalid argument"),
        (["write"], {}, 2, "write: not an option, see --help"),
        ([], {"FAKE_CUDA": "none"}, 3, "no GPU is visible"),
        (["--list"], {"FAKE_CUDA": "none"}, 3, "no GPU is visible"),
        (
            [],
            {"FAKE_CUDA": "old"},
            3,
            "the NVIDIA driver: system has unsupported display driver / cuda driver combination"
            " (803)",
        ),
        (
            ["-d", "0.5"],
            {"FAKE_CUDA": "lost"},
            3,
            "1 batches are complete, but the mark in memory is 1 behind",
        ),
        (
            [],
            {"LD_LIBRARY_PATH": "/nowhere"},
            3,
            "no NVIDIA driver: libcuda.so.1: cannot open shared object file: No such file or"
            " directory",
        ),
    ],
)
def test_what_is_wrong_is_told_in_one_line(folder, words, environment, status, said):
    done = run(folder, *words, **environment)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", f"copy_engine: {said}\n")
    assert meanings("copy_engine", done.stderr) == [Fault(said)]


def test_gpus_are_listed(folder):
    listed = run(folder, "--list").stdout
    assert listed == "0 0000:01:00.0 Fake GPU\n1 0000:02:00.0 Other GPU\n"


def test_what_is_missing_is_said(folder, monkeypatch):
    injector = INJECTORS["copy_engine"]
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    assert injector.missing().startswith("no NVIDIA driver: libcuda.so.1")
    assert injector.device() is None
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    assert injector.missing() is None
    assert injector.device() == "pcie:0000:01:00.0"
    monkeypatch.setattr(copy_engine, "_program", lambda: "/nowhere/copy_engine")
    assert re.fullmatch(r"copy_engine is missing: 'make -C .*/copy_engine'", injector.missing())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "nvml", "proof"),
    [
        ("copy_engine", "", "device"),
        ("copy_engine", "refused", "memory"),
        ("copy_engine_read", "", "device"),
        ("copy_engine_both", "", "device"),
    ],
)
def test_a_block_of_its_writes_is_proven_by_its_link_or_by_memory(
    block, folder, monkeypatch, name, nvml, proof
):
    """The link's counter gives 3 MB/s and 1 MB/s, alone and in runs alike, so it agrees."""
    monkeypatch.setenv("FAKE_NVML", nvml)
    monkeypatch.setenv("FAKE_CUDA", "slow")  # leaves the processor to others
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    writes = {"injector": name, "message_b": MIB, "buffer_node": 0}
    # The link seems to pass as much without writes.
    # The writes are as fast as this host's load lets them be, unlike the counter, which may show
    # many times as much as they claim.
    demand = {**PACE, "foreign_share": None, "counter_share": 100}
    done = block(arms=["off", "on"], command=lasting(2), demand=demand, writes=writes).done()
    sample = done.sample()
    assert (done.sample("off")["outcome"], sample["outcome"]) == ("kept", "kept"), sample["reason"]
    assert not any("were started" in note for note in sample["notes"])  # they had been held
    (writer,) = sample["writers"]
    assert (writer["transport"], writer["proof"]) == ("copy engine", proof)
    assert writer["counter"] == ("pcie:0000:01:00.0" if proof == "device" else None)
    if proof == "device":
        alone_b_s = 1e6 if name == "copy_engine_read" else 3e6
        assert writer["counted_alone_b_s"] == pytest.approx(alone_b_s, rel=0.5)
    assert writer["rate_b_s"] > 1e7
    assert writer["target_on_node_share"] == 1.0
