"""Tests of the program membench.

membench must compute right results with each instruction set, and must put its memory on the NUMA
node that a user names.
"""

import json
import os
import platform
import re
import shutil
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from records.kernel_text import TICKS_PER_S, cpu_list, stat_of
from tests.messages import assert_message
from tests.reframe_tests.conftest import MEMBENCH, at_work, document, make, refused
from tests.reframe_tests.reframe_call import ran, succeeded
from tests.waiting import wait_until

KERNELS = ["copy", "scale", "add", "triad", "read", "write", "mix", "nt_write"]
#: Kernel -> bytes that it reads and writes for each element, counted as STREAM counts them.
ELEMENT_B = dict(zip(KERNELS, (16, 16, 24, 24, 8, 8, 16, 8), strict=True))
#: All instruction sets; the widest comes first.
INSTRUCTION_SETS = ("avx512", "avx2", "sse2", "portable")


def has_stores(kernel, stores):
    """Return whether membench offers a kind of stores for a kernel."""
    if kernel == "nt_write":
        return stores == "streaming"
    return stores == "cached" or kernel in ("copy", "scale", "add", "triad")


@pytest.mark.slow
def test_every_kernel_on_every_instruction_set_under_sanitizers(membench_sanitized):
    """membench compares each array element with the formula; sanitizers find other faults."""
    short = ("-d", 0.01, "-s", "64KiB")
    possible = [
        isa
        for isa in INSTRUCTION_SETS
        if ran(membench_sanitized, "copy", "--isa", isa, *short).returncode != 2
    ]
    assert "portable" in possible
    for isa, kernel, stores in product(possible, KERNELS, ("cached", "streaming")):
        if has_stores(kernel, stores):
            words = ("--isa", isa, "--stores", stores, "-s", "48KiB", "-d", 0.02)
            result = document(membench_sanitized, kernel, "-n", 1, *words)
            assert (result["isa"], result["kernel"]) == (isa, kernel)
            assert result["element_b"] == ELEMENT_B[kernel]
            assert result["stores"] == (stores if isa != "portable" else "cached")


@pytest.mark.slow
def test_streaming_stores_are_as_wide_as_each_instruction_set(membench):
    """The disassembler shows the stores that bypass the caches; all have the set's width."""
    if platform.machine() != "x86_64" or shutil.which("objdump") is None:
        pytest.skip("needs objdump and an x86 processor")
    code = succeeded(ran("objdump", "-d", "--no-show-raw-insn", membench))
    widths = {"sse2": {"xmm"}, "avx2": {"ymm"}, "avx512": {"zmm"}, "portable": set()}
    for isa, kernel in product(widths, ("copy", "scale", "add", "triad", "write")):
        (body,) = re.findall(rf"<{isa}_{kernel}_streaming>:\n(.*?)\n\n", code, re.DOTALL)
        assert set(re.findall(r"movntp[ds] +%(.mm)\d", body)) == widths[isa]


@pytest.mark.slow
def test_variables_of_a_shell_do_not_keep_membench_from_its_cores(membench):
    """A check sets OMP_PROC_BIND=false. Each of the others alone would leave one core or thread."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two processors")
    shell = {"GOMP_CPU_AFFINITY": "0", "OMP_PLACES": "cores", "OMP_DYNAMIC": "true"}
    done = ran(
        *(membench, "copy", "-n", 2, "-s", "64KiB", "-d", 0.01),
        env=os.environ | shell | {"OMP_PROC_BIND": "false"},
    )
    assert "2 cores, processors" in done.stdout
    assert "fewer threads" not in done.stderr


@pytest.mark.slow
def test_membench_is_the_same_program_wherever_it_is_compiled(membench, tmp_path):
    """Its debug information would name the folder. GCC 7 has no -ffile-prefix-map."""
    copy = shutil.copytree(MEMBENCH, tmp_path / "else where's")
    assert make("all", tmp_path, copy).read_bytes() == membench.read_bytes()
    assert "-ffile-prefix-map" not in succeeded(ran("make", "-n", "-B", "-C", MEMBENCH))


@dataclass(frozen=True)
class SourceFault:
    """A fault for a file of the source, and the kernels whose results must show the fault."""

    file: str
    #: Pairs of an old text and a new text.
    changes: list[tuple[str, str]]
    kernels: list[str]
    message: str = "wrong results"


_SUM = "ADD(LOAD(b + i), MUL(s, LOAD(c + i)))"
#: Code that skips each third pass; membench counts the skipped pass nevertheless.
_SKIP = "static int calls; if (calls++ % 3 == 2) return 0; "
SOURCE_FAULTS = {
    "arithmetic": SourceFault(
        "kernels.inc",
        [
            (_SUM, "ADD(LOAD(c + i), MUL(s, LOAD(b + i)))"),
            ("sum += lanes[lane]", "sum = lanes[lane]"),
            ("WRITER(write, s)", "WRITER(write, ADD(s, s))"),
            ("ADD(LOAD(a + i), s)", "ADD(LOAD(a + i), ADD(s, s))"),
        ],
        ["triad", "read", "nt_write", "mix"],
    ),
    "skipped": SourceFault(
        "kernels.inc",
        [(text, f"{_SKIP}{text}") for text in ("(void)s, (void)b,", "\n    (void)b, (void)c")],
        KERNELS,
    ),
    "passes": SourceFault("measure.c", [("i < core->passes", "i + 1 < core->passes")], ["copy"]),
    # Without --node, memory must be on the NUMA node of its core. The changed program expects the
    # memory on another node.
    "pages": SourceFault(
        "measure.c",
        [("node != core->node &&", "node == core->node &&")],
        ["read"],
        message="on another node",
    ),
}
#: Options for short measurements with small arrays: one iteration can make one pass or many passes.
ONE_OR_MANY_PASSES = ("-s", "64KiB", "-d", 0.02)


@pytest.mark.slow
@pytest.mark.parametrize("fault", SOURCE_FAULTS.values(), ids=list(SOURCE_FAULTS))
def test_a_fault_in_the_source_is_found(membench_changed, fault):
    program = membench_changed({fault.file: fault.changes})
    for kernel in fault.kernels:
        refused(ran(program, kernel, "-n", 1, *ONE_OR_MANY_PASSES), fault.message)


@pytest.mark.slow
def test_pages_of_threads_that_are_not_bound_may_be_on_any_node(membench_changed):
    fault = SOURCE_FAULTS["pages"]
    program = membench_changed({fault.file: fault.changes})
    assert ran(program, "read", "--free", "-n", 1, *ONE_OR_MANY_PASSES).returncode == 0


def triad_of_cpus(membench, cpus):
    """Return the result of triad on these processors.

    Return None if other work on the host prevented all processors from working at the same time.
    """
    words = ("--cpus", ",".join(map(str, cpus)), "-s", "8MiB", "-d", 0.3, "-j", "-")
    outcome = ran(membench, "triad", *words)
    if "no time in which all cores were busy" in outcome.stderr:
        return None
    return json.loads(succeeded(outcome))


def test_the_figure_is_the_sum_of_all_cores(membench):
    cpus = sorted(os.sched_getaffinity(0))[:2]
    result = wait_until(lambda: triad_of_cpus(membench, cpus))
    assert [core["cpu"] for core in result["cores"]] == cpus
    assert result["rate_b_s"] == pytest.approx(sum(core["rate_b_s"] for core in result["cores"]))
    assert all(core["iterations"] > 0 for core in result["cores"])
    assert result["array_b"] == 8 * 2**20


def test_rates_count_the_bytes_moved_while_all_cores_are_busy(membench):
    """The working time of each core fits into the window, and fills most of it in one attempt.

    The test makes several attempts, since other work on this host may interrupt the cores.
    """
    cpus = sorted(os.sched_getaffinity(0))[:2]

    def fills_window():
        result = triad_of_cpus(membench, cpus)
        if result is None:
            return False
        pass_b = 3 * result["array_b"]  # a pass moves three arrays
        busy_s = [
            pass_b * core["passes"] * core["iterations"] / core["rate_b_s"]
            for core in result["cores"]
        ]
        assert 0 < max(busy_s) < 1.000001 * result["window_s"]
        return result["window_s"] < 0.3 and min(busy_s) > 0.5 * result["window_s"]

    wait_until(fills_window, most_s=60.0)


def test_the_document_names_no_processor_for_a_thread_that_is_not_bound(membench):
    result = document(membench, "write", "--free", "-n", 1, "-s", "1MiB", "-d", 0.05)
    assert [core["cpu"] for core in result["cores"]] == [None]


def test_membench_fails_if_it_cannot_write_its_document(membench):
    outcome = ran(membench, "write", "-n", 1, "-s", "64KiB", "-d", 0.02, "-j", "/no/x")
    assert outcome.returncode == 3
    assert "/no/x" in outcome.stderr


def test_the_linux_kernel_shows_that_memory_is_bound(membench):
    """/proc/PID/numa_maps shows the policy and the pages; membench itself does not read it."""
    if not Path("/proc/self/numa_maps").exists():
        pytest.skip("the kernel has no numa_maps")
    words = ("write", "-n", 1, "-m", 0, "-s", "16MiB")

    def bound_b():
        """Return the bytes on node 0 of the largest mapping that is bound to node 0."""
        lines = Path(f"/proc/{pid}/numa_maps").read_text().splitlines()
        bound = "\n".join(line for line in lines if " bind:0 " in line)
        pages = [int(number) for number in re.findall(r" N0=(\d+)", bound)]
        return max(pages, default=0) * os.sysconf("SC_PAGESIZE")

    with at_work(membench, *words, "-d", 400) as pid:
        wait_until(lambda: bound_b() >= 16 * 2**20)
    result = document(membench, *words, "-d", 0.02)
    assert result["node"] == 0
    assert list(result["pages_on_node"]) == ["0"]


@pytest.mark.parametrize("bound", [True, False])
def test_threads_are_bound_to_cores_of_a_node_or_left_to_the_system(membench, bound):
    cpulist = Path("/sys/devices/system/node/node0/cpulist")
    if not cpulist.exists():
        pytest.skip("the kernel shows no NUMA nodes")
    cores = min(2, len(os.sched_getaffinity(0)))
    words = ["--cpu-node", "0"] if bound else ["--free"]

    def all_measure():
        """Return whether all threads have worked; each thread binds itself before it works."""
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
    ("words", "status", "location", "values"),
    [
        ([], 2, "", ["kernel"]),
        (["fma"], 2, "", ["kernel", "fma"]),
        (["triad", "--cpus", "0,0"], 2, ": --cpus 0,0", ["0"]),
        (["triad", "--order", "far"], 2, ": --order far", []),
        (["triad", "-n", 5000], 2, ": --cores 5000", ["1", "4096"]),
        (["triad", "-n", 4096], 2, ": --cores 4096", []),
        (["triad", "-n", "1.5"], 2, ": --cores 1.5", ["whole"]),
        (["triad", "--cpus", "3-1"], 2, ": --cpus 3-1", ["0-3,8"]),
        (["triad", "--free", "--cpu-node", 0], 2, "", ["--cpu-node", "--free"]),
        (["triad", "--cpu-node", 1000], 2, ": --cores 0", ["0"]),
        (["triad", "--isa", "mmx"], 2, ": --isa mmx", []),
        (["nt_write", "--stores", "cached"], 2, ": --stores", ["nt_write"]),
        (["triad", "--pages", "big"], 2, ": --pages big", []),
        (["triad", "-n", 1, "-m", 1000, "-s", "1MiB"], 3, "", ["node"]),
        (["triad", "-n", 1, "-s", "4TiB"], 2, ": --size 4TiB", ["64MiB"]),
    ],
)
def test_the_message_on_a_wrong_option_names_the_option(membench, words, status, location, values):
    outcome = ran(membench, *words)
    assert (outcome.returncode, "FOM" in outcome.stdout) == (status, False)
    assert_message(outcome.stderr, f"membench{location}", *values)
