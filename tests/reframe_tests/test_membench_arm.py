"""Tests of membench for 64-bit ARM: this host compiles the program, and an emulator runs it."""

import re
import shutil

import pytest

from tests.reframe_tests.conftest import MEMBENCH
from tests.reframe_tests.reframe_call import ran, succeeded

CC = "aarch64-linux-gnu-gcc"
EMULATOR = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
KERNELS = ["copy", "scale", "add", "triad", "read", "write", "mix", "nt_write"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which(CC) is None or EMULATOR is None,
        reason=f"needs {CC} and qemu-aarch64 (Debian: gcc-aarch64-linux-gnu, qemu-user-static)",
    ),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    out = tmp_path_factory.mktemp("membench-arm")
    settings = [f"CC={CC}", "CFLAGS=-static", f"OUT={out}"]
    succeeded(ran("make", "-s", "-C", MEMBENCH, "all", *settings))
    return out / "membench"


def disassembled(program, function):
    code = succeeded(ran("aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", program))
    return re.findall(rf"<{function}>:\n(.*?)\n\n", code, re.DOTALL)


@pytest.mark.parametrize("isa", ["neon", "portable"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_membench_finds_its_results_right(program, kernel, isa):
    words = [EMULATOR, program, kernel, "-n", "1", "-s", "64KiB", "-d", "0.02", "--isa", isa]
    done = ran(*words)
    # membench checks its results first, and queries the placement of pages afterwards. The emulator
    # does not support this query.
    assert "does not report the placement of pages" in done.stderr
    streams = kernel == "nt_write" and isa == "neon"
    assert f"{isa}, " in done.stdout
    assert ("streaming stores" in done.stdout) == streams


def test_only_streaming_stores_of_neon_are_stnp_instructions(program):
    for kernel in ("copy", "scale", "add", "triad", "write"):
        for isa in ("neon", "portable"):
            for stores in ("cached", "streaming"):
                (body,) = disassembled(program, f"{isa}_{kernel}_{stores}")
                assert ("\tstnp\t" in body) == ((isa, stores) == ("neon", "streaming"))
