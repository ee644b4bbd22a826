"""The program membench: right results on every instruction set, memory where it was asked for."""

import json
import os
import platform
import re
import shutil
from itertools import product
from pathlib import Path

import pytest

from records.kernel_text import TICKS_PER_S, cpu_list, stat_of
from tests.reframe_tests.conftest import at_work, document, refused
from tests.reframe_tests.reframe_call import ran, succeeded
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "reframe_tests" / "src" / "membench"
KERNELS = ["copy", "scale", "add", "triad", "read", "write", "mix", "nt_write"]
#: Bytes an element: the doubles read and written, as STREAM counts.
ELEMENT_B = dict(zip(KERNELS, (16, 16, 24, 24, 8, 8, 16, 8), strict=True))


@pytest.mark.slow
def test_every_kernel_on_every_instruction_set_under_sanitizers(membench_sanitized):
    # The program checks each array element against the formula; sanitizers watch the rest.
    short = ("-d", 0.01, "-s", "64KiB")
    isas = [
        name
        for name in ("avx512", "avx2", "sse2", "portable")
        if ran(membench_sanitized, "copy", "--isa", name, *short).returncode != 2
    ]
    assert "portable" in isas
    for isa in isas:
        for kernel in KERNELS:
            for stores in ("cached", "streaming"):
                if (kernel, stores) == ("nt_write", "cached") or (
                    kernel in ("read", "write", "mix") and stores == "streaming"
                ):
                    continue
                words = ("--isa", isa, "--stores", stores, "-s", "48KiB", "-d", 0.02)
                result = document(membench_sanitized, kernel, "-n", 1, *words)
                assert (result["isa"], result["kernel"]) == (isa, kernel)
                assert result["element_b"] == ELEMENT_B[kernel]
                assert result["stores"] == (stores if isa != "portable" else "cached")


def test_streaming_stores_are_as_wide_as_each_instruction_set(membench):
    """As the disassembler sees them: whole lines past the caches, of one width each."""
    if platform.machine() != "x86_64" or shutil.which("objdump") is None:
        pytest.skip("needs objdump and an x86 processor")
    code = succeeded(ran("objdump", "-d", "--no-show-raw-insn", membench))
    widths = {"sse2": {"xmm"}, "avx2": {"ymm"}, "avx512": {"zmm"}, "portable": set()}
    for isa, kernel in product(widths, ("copy", "scale", "add", "triad", "write")):
        (body,) = re.findall(rf"<{isa}_{kernel}_streaming>:\n(.*?)\n\n", code, re.DOTALL)
        assert set(re.findall(r"movntp[ds] +%(.mm)\d", body)) == widths[isa]


_SUM = "ADD(LOAD(b + i), MUL(s, LOAD(c + i)))"
#: Each third pass is not made, but counted.
_SKIP = "static int calls; if (calls++ % 3 == 2) return 0; "
#: What is wrong in the source -> kernels that find it.
BROKEN = {
    "arithmetic": (
        "kernels.inc",
        [
            (_SUM, "ADD(LOAD(c + i), MUL(s, LOAD(b + i)))"),
            ("sum += lanes[lane]", "sum = lanes[lane]"),
            ("WRITER(write, s)", "WRITER(write, ADD(s, s))"),
            ("ADD(LOAD(a + i), s)", "ADD(LOAD(a + i), ADD(s, s))"),
        ],
        ["triad", "read", "nt_write", "mix"],
    ),
    "skipped": (
        "kernels.inc",
        [(text, f"{_SKIP}{text}") for text in ("(void)s, (void)b,", "\n    (void)b, (void)c")],
        KERNELS,
    ),
    "passes": ("measure.c", [("i < core->passes", "i + 1 < core->passes")], ["copy"]),
    # Without --node, memory must be near its core: here another node is taken for the core's.
    "pages": ("measure.c", [("node != core->node &&", "node == core->node &&")], ["read"]),
}
SAID = {"pages": "on another node"}


@pytest.mark.parametrize("fault", BROKEN)
def test_what_is_broken_is_found(membench_changed, fault):
    file, changes, kernels = BROKEN[fault]
    program = membench_changed({file: changes})
    # Large enough for one pass per iteration, and small enough for many.
    words = ("-s", "64KiB", "-d", 0.02)
    for kernel in kernels:
        refused(ran(program, kernel, "-n", 1, *words), SAID.get(fault, "wrong results"))
    if fault == "pages":
        assert ran(program, "read", "--free", "-n", 1, *words).returncode == 0


def test_figure_is_the_sum_of_all_cores(membench):
    cpus = sorted(os.sched_getaffinity(0))[:2]
    words = ("--cpus", ",".join(map(str, cpus)), "-s", "8MiB", "-d", 0.3, "-j", "-")
    # Other work on this host may interrupt one core after the other, or both for long.
    for _ in range(10):
        done = ran(membench, "triad", *words)
        if "no time in which all cores were busy" in done.stderr:
            continue
        result = json.loads(succeeded(done))
        assert [core["cpu"] for core in result["cores"]] == cpus
        assert result["rate_b_s"] == pytest.approx(
            sum(core["rate_b_s"] for core in result["cores"])
        )
        assert all(core["iterations"] > 0 for core in result["cores"])
        assert result["array_b"] == 8 * 2**20
        # The time in which each core moved its bytes, of three arrays a pass.
        moved_s = [
            3 * result["array_b"] * core["passes"] * core["iterations"] / core["rate_b_s"]
            for core in result["cores"]
        ]
        assert 0 < max(moved_s) < 1.000001 * result["window_s"]
        # It fills most of a window of that length.
        if result["window_s"] < 0.3 and min(moved_s) > 0.5 * result["window_s"]:
            break
    else:
        pytest.fail("never most of the window")
    result = document(membench, "write", "--free", "-n", 1, "-s", "1MiB", "-d", 0.05)
    assert [core["cpu"] for core in result["cores"]] == [None]
    done = ran(membench, "write", "-n", 1, "-s", "64KiB", "-d", 0.02, "-j", "/no/x")
    assert done.returncode == 3
    assert "cannot be written" in done.stderr


def test_memory_is_bound_and_the_kernel_agrees(membench):
    # /proc/PID/numa_maps, which membench does not use, must show the policy and the pages.
    if not Path("/proc/self/numa_maps").exists():
        pytest.skip("the kernel has no numa_maps")
    words = ("write", "-n", 1, "-m", 0, "-s", "16MiB")

    def bound_b():
        lines = Path(f"/proc/{pid}/numa_maps").read_text().splitlines()
        bound = [word for line in lines if " bind:0 " in line for word in line.split()]
        pages = [int(word[3:]) for word in bound if word.startswith("N0=")]
        return max(pages, default=0) * os.sysconf("SC_PAGESIZE")

    with at_work(membench, *words, "-d", 400) as pid:
        wait_until(lambda: bound_b() >= 16 * 2**20)
    result = document(membench, *words, "-d", 0.02)
    assert result["node"] == 0
    assert list(result["pages_on_node"]) == ["0"]


@pytest.mark.parametrize("bound", [True, False])
def test_threads_are_bound_to_cores_of_a_node_or_left_alone(membench, bound):
    cpulist = Path("/sys/devices/system/node/node0/cpulist")
    if not cpulist.exists():
        pytest.skip("the kernel shows no NUMA nodes")
    cores = min(2, len(os.sched_getaffinity(0)))
    words = ["--cpu-node", "0"] if bound else ["--free"]

    def all_measure():
        """They bind themselves first."""
        used = [stat_of(task).used_ticks for task in tasks.iterdir()]
        return len(used) == cores and min(used) > 0.2 * TICKS_PER_S

    with at_work(membench, "read", "-n", cores, "-s", "8MiB", "-d", 400, *words) as pid:
        tasks = Path(f"/proc/{pid}/task")
        wait_until(all_measure)
        allowed = [os.sched_getaffinity(int(task.name)) for task in tasks.iterdir()]
    assert len(allowed) == cores
    if bound:
        assert all(len(cpus) == 1 for cpus in allowed)
        assert len(set().union(*allowed)) == cores
        assert set().union(*allowed) <= set(cpu_list(cpulist.read_text()))
    else:
        assert all(cpus == os.sched_getaffinity(0) for cpus in allowed)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ((), 2, "one kernel is needed"),
        (("fma",), 2, "no kernel fma"),
        (("triad", "--cpus", "0,0"), 2, "processor 0 is listed twice"),
        (("triad", "--order", "far"), 2, "--order far"),
        (("triad", "-n", 5000), 2, "--cores 5000: a number from 1 to 4096"),
        (("triad", "-n", 4096), 2, "are there to use"),
        (("triad", "-n", "1.5"), 2, "a whole number is needed"),
        (("triad", "--cpus", "3-1"), 2, "a list such as 0-3,8"),
        (("triad", "--free", "--cpu-node", 0), 2, "exclude each other"),
        (("triad", "--cpu-node", 1000), 2, "0 are there to use"),
        (("triad", "--isa", "mmx"), 2, "not an instruction set"),
        (("nt_write", "--stores", "cached"), 2, "stores as its name says"),
        (("triad", "--pages", "big"), 2, "--pages big"),
        (("triad", "-n", 1, "-m", 1000, "-s", "1MiB"), 3, "cannot be bound to that node"),
        (("triad", "-n", 1, "-s", "4TiB"), 2, "a size such as"),
    ],
)
def test_mistakes(membench, words, code, text):
    done = ran(membench, *words)
    assert (done.returncode, "FOM" in done.stdout) == (code, False)
    assert text in done.stderr
