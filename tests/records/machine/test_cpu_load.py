"""Processor time of foreign processes and kernel threads, frequencies, and free CPUs.

The hosts are made of files. Times are worked out by hand, in ticks of 10 ms. A process is foreign
if it does not belong to the block of runs.
"""

import os

import pytest

from records.machine import cpu_load
from records.machine.cpu_load import KernelThreads
from tests.conductor.sysfs import write
from tests.records.machine.made import BLOCK, KERNEL, process, stat, thread

TICKS = os.sysconf("SC_CLK_TCK")
USER = 0x00400000


def reading(folder, *processes, stat="cpu  0 0 0 0 0 0 0 0 0 0", earlier=None, **options):
    files = {"proc/stat": stat}
    for process_files in (process(1, 0, "init"), *processes):
        files |= process_files
    root = write(folder, files)
    return cpu_load.read(BLOCK, options.get("roots", []), options.get("exempt", ()), earlier, root)


def at_both(pid, parent, name, *used, **more):
    """Return the files of a process at both readings; `used` has its times at each reading."""
    return [process(pid, parent, name, *ticks, **more) for ticks in used]


SHELL, ZOMBIE = process(90, 1, "sh", 1), process(91, 90, "app", 700, state="Z")
APP = process(91, 90, "app", 100, block=BLOCK)
#: Name of a foreign program -> its ticks, and the processes at both readings.
READINGS = [
    # Processes of another block are foreign, those of this block are not. A control sequence in the
    # name of a program is not passed on to the terminal.
    ({"?[2J) 0 x": 7}, at_both(10, 1, "\x1b[2J) 0 x", [50], [57], block="f0")),
    ({}, at_both(11, 1, "app", [5], [9], block=BLOCK)),
    # Kernel threads are not foreign.
    ({}, at_both(40, 2, "kworker/0:1", [100], [900], flags=KERNEL)),
    # A shell runs one short program after another. Neither reading sees any of them.
    ({"sh": 81}, at_both(50, 1, "sh", [1, 1000], [2, 1080])),
    # Slurm's daemon forks, and the fork becomes the application.
    ({}, [process(65, 1, "slurmstepd", 1), process(65, 1, "app", 400, block=BLOCK)]),
    # A new process has the PID of an ended one.
    ({"new": 20}, [process(70, 1, "old", 500, start=5), process(70, 1, "new", 20, start=900)]),
    # A zombie no longer has an environment. The first one is known from the first reading as a
    # process of the block. The second one is new.
    ({}, [SHELL | APP, SHELL | ZOMBIE]),
    ({}, [SHELL, SHELL | ZOMBIE]),
]


def foreign_ticks(tmp_path, before, after, **options):
    first = reading(tmp_path / "before", before, **options)
    last = reading(tmp_path / "after", after, earlier=first, **options)
    return {name: used * TICKS for name, used in cpu_load.foreign_s(first, last).items() if used}


@pytest.mark.parametrize(("ticks", "processes"), READINGS)
def test_ticks_that_foreign_processes_used_between_the_readings(tmp_path, ticks, processes):
    assert foreign_ticks(tmp_path, *processes) == pytest.approx(ticks)


def test_descendants_of_the_conductor_are_not_foreign_with_any_environment(tmp_path):
    conductor, env = at_both(20, 1, "conductor", [1], [9]), at_both(21, 20, "env", [2], [9])
    app = at_both(22, 21, "app", [3], [99])
    trees = [c | e | a for c, e, a in zip(conductor, env, app, strict=True)]
    assert foreign_ticks(tmp_path, *trees, roots=[20]) == {}


def test_the_blocks_owner_is_exempt_but_not_the_programs_that_it_starts(tmp_path):
    reframe, sacct = at_both(30, 1, "reframe", [100], [150, 60]), at_both(31, 30, "sacct", [1], [4])
    trees = [owner | child for owner, child in zip(reframe, sacct, strict=True)]
    assert foreign_ticks(tmp_path, *trees, exempt=[30]) == pytest.approx({"sacct": 3})


def test_a_parent_gets_the_times_of_ended_children(tmp_path):
    """make waited for cc, and cc for cc1. cc ended after 40 more ticks, and cc1 after 5."""
    make, ended = at_both(60, 1, "make", [1], [1, 100 + 40 + 3000 + 5])
    begun = make | process(61, 60, "cc", 100) | process(62, 61, "cc1", 3000)
    assert foreign_ticks(tmp_path, begun, ended) == pytest.approx({"make": 45})


def test_times_of_a_child_that_had_ended_before_are_not_counted_when_its_parent_waits_for_it(
    tmp_path,
):
    """The parent also waits for another child, which used 30 ticks between the readings."""
    make, waited = at_both(60, 1, "make", [1], [1, 2297 + 30])
    begun = make | process(61, 60, "cc1", 2297, state="Z")
    assert foreign_ticks(tmp_path / "waited", begun, waited) == pytest.approx({"make": 30})
    still = process(60, 1, "make", 1, 30) | process(61, 60, "cc1", 2297, state="Z")
    assert foreign_ticks(tmp_path / "still", begun, still) == pytest.approx({"make": 30})


def test_foreign_time_is_at_most_the_time_of_all_threads_of_the_host(tmp_path):
    """Two hardware threads have 260 ticks in 1.3 s.

    A process of unknown history ended, and its 2298 ticks were added to the times of the shell.
    """
    shell, adopted = at_both(60, 1, "sh", [1], [1, 2298])
    loads = []
    for name, processes, text in (
        ("before", shell, "cpu 1000 0 0 0 0 0 0 0"),
        ("after", adopted | process(62, 1, "cc", 302), "cpu 1200 0 0 60 0 0 0 0"),
    ):
        loads.append(reading(tmp_path / name, processes, stat=text))
    foreign_s = cpu_load.foreign_s(*loads)
    assert sum(foreign_s.values()) == pytest.approx(260 / TICKS)
    assert foreign_s["sh"] / foreign_s["cc"] == pytest.approx(2298 / 302)


@pytest.mark.parametrize(("pid", "name"), [(80, "slurmstepd"), (80, "starter"), (1, "init")])
def test_times_of_the_ended_application_are_not_counted_as_its_parents(tmp_path, pid, name):
    """The parent is the daemon of a job step, another parent, or init, which adopts orphans."""
    before, after = at_both(pid, 0, name, [5, 0], [6, 700])
    begun = before | process(81, pid, "app", 100, block=BLOCK)
    assert foreign_ticks(tmp_path, begun, after) == pytest.approx({name: 1})


def test_times_of_an_orphan_of_the_block_are_not_counted_as_those_of_init(tmp_path):
    """The shell that started the application ended first, so init adopted the application."""
    before, after = at_both(1, 0, "init", [5, 0], [6, 700])
    daemon = process(80, 1, "daemon", 1)
    shell, app = process(81, 80, "sh", 3, block=BLOCK), process(82, 81, "app", 100, block=BLOCK)
    begun = before | daemon | shell | app
    assert foreign_ticks(tmp_path, begun, after | daemon) == pytest.approx({"init": 1})


def test_the_time_of_hidden_processes_is_unknown_and_not_zero(tmp_path):
    seen = reading(tmp_path / "a", process(10, 1))
    (tmp_path / "b/proc/1").mkdir(parents=True)
    write(tmp_path / "b", {"proc/stat": "cpu  1 0 0 1 0 0 0 0 0 0"})
    hidden = cpu_load.read(BLOCK, [], root=tmp_path / "b")
    assert cpu_load.foreign_s(hidden, hidden) is None
    assert cpu_load.foreign_s(seen, seen) == {"init": 0, "work": 0}


def test_stolen_and_total_ticks(tmp_path):
    # The columns are user nice system idle iowait irq softirq steal guest. 400 ticks pass, of which
    # 12 are stolen. The time of guests is already in that of users.
    before = reading(tmp_path / "a", stat="cpu  100 0 10 50 5 1 2 30 90 0")
    after = reading(tmp_path / "b", stat="cpu  300 10 40 180 8 6 12 42 270 0")
    assert after.stolen_ticks - before.stolen_ticks == 12
    assert after.total_ticks - before.total_ticks == 400
    # Old kernels do not count stolen ticks.
    assert (before.stolen_ticks, before.total_ticks) == (30, 198)
    for text in ("cpu 1 2 3 4 5 6 7", "x y"):
        assert reading(tmp_path / "c", stat=text).total_ticks == 0


def test_frequency_of_the_applications_cores(tmp_path):
    cpu = "sys/devices/system/cpu"
    root = write(
        tmp_path,
        {
            f"{cpu}/cpu0/cpufreq/scaling_cur_freq": "3000000",
            f"{cpu}/cpu1/cpufreq/scaling_cur_freq": "2000000",
            f"{cpu}/cpu10/cpufreq/scaling_cur_freq": "1000000",
        },
    )
    assert cpu_load.frequency_hz([0, 1], root) == pytest.approx(2.5e9)
    assert cpu_load.frequency_hz([], root) == pytest.approx(2e9)


@pytest.mark.parametrize(
    ("flags", "expected"), [("fpu aperfmperf", (2.4e9, 1.7e9)), ("fpu sse2", (None, None))]
)
def test_frequencies_in_cpuinfo_count_only_if_they_are_measured(tmp_path, flags, expected):
    text = f"flags\t\t: {flags}\n\n" + "".join(
        f"processor\t: {cpu}\ncpu MHz\t\t: {mhz}\n"
        for cpu, mhz in enumerate(("2400.000", "1000.0", "0.0", "1e6"))
    )
    root = write(tmp_path, {"proc/cpuinfo": text})
    assert (cpu_load.frequency_hz([0], root), cpu_load.frequency_hz([], root)) == expected


def test_time_that_kernel_threads_used_since_the_first_reading(tmp_path):
    write(tmp_path, thread(20, "kworker/0:1H-mlx5", 0, 100, 5))
    write(tmp_path, thread(21, "kworker (x) 1", 2, 40, 6, cpu=7))
    write(tmp_path, thread(22, "ksoftirqd/0", 0, 500, 7))
    write(tmp_path, thread(99, "lmp", 7000, 800, 8, USER))
    threads = KernelThreads(tmp_path)
    assert threads.are_visible
    assert threads.read_s() == 0
    write(tmp_path, thread(20, "kworker/0:1H-mlx5", 0, 130, 5))
    write(tmp_path, thread(21, "kworker (x) 1", 3, 45, 6, cpu=7))
    write(tmp_path, thread(22, "ksoftirqd/0", 0, 900, 7))
    write(tmp_path, thread(99, "lmp", 9000, 900, 8, USER))
    # The two kworkers used 30 and 1 + 5 ticks. ksoftirqd does not count, since its time is part of
    # the time of soft interrupts. lmp is no kernel thread.
    assert threads.read_s() == pytest.approx(36 / TICKS)
    assert threads.by_cpu_s() == pytest.approx({0: 30 / TICKS, 7: 6 / TICKS})
    # A new thread now has PID 20. It has used 3 ticks since it started.
    write(tmp_path, thread(20, "kworker/u8:1", 0, 3, 70))
    assert threads.read_s() == pytest.approx(39 / TICKS)


def busy_thread(pid, tid, seconds, allowed):
    ticks = int(seconds * TICKS / 2)  # half in user, half in system mode
    return {
        f"proc/{pid}/task/{tid}/stat": stat(tid, 1, "x (1) y", "R", used=ticks, system=ticks),
        f"proc/{pid}/task/{tid}/status": f"Cpus_allowed:\tff\nCpus_allowed_list:\t{allowed}",
    }


def test_the_busy_threads_of_all_processes_count(tmp_path):
    root = write(
        tmp_path,
        {
            "sys/devices/system/cpu/online": "0-7",
            **busy_thread(10, 10, 9.0, "0"),
            **busy_thread(10, 11, 8.0, "1,2"),
            **busy_thread(20, 20, 9.5, "4"),
            # A launcher sleeps, and may run on any CPU.
            **busy_thread(30, 30, 0.4, "0-7"),
            # This process is not asked for.
            **busy_thread(99, 99, 9.0, "7"),
        },
    )
    busy = cpu_load.busy_cpus([10, 20, 30, 31], 10.0, root)
    assert busy == {0, 1, 2, 4}
    assert cpu_load.free_cpus(busy, root) == "3,5-7"


@pytest.mark.parametrize(
    ("allowed", "free"), [("0-127", ""), ("", None), ("3-1", None), ("x", None)]
)
def test_no_cpu_is_free_beside_a_thread_that_may_run_on_all_and_unreadable_lists_are_unknown(
    tmp_path, allowed, free
):
    root = write(
        tmp_path, {"sys/devices/system/cpu/online": "0-3", **busy_thread(10, 10, 9.0, allowed)}
    )
    assert cpu_load.free_cpus(cpu_load.busy_cpus([10], 10.0, root), root) == free
