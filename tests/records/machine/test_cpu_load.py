"""Hosts made of files; times worked out by hand, in ticks of 10 ms.

Processor time of kernel threads, and what an application leaves free, also of this host.
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
    """A process at both readings, with its times at each of them."""
    return [process(pid, parent, name, *ticks, **more) for ticks in used]


SHELL, ZOMBIE = process(90, 1, "sh", 1), process(91, 90, "app", 700, state="Z")
APP = process(91, 90, "app", 100, block=BLOCK)
#: Ticks of foreign processes by name, and the processes at both readings.
READINGS = [
    # Processes of the block are not foreign, and those of another block are, by a name that cannot
    # act on a terminal.
    ({"?[2J) 0 x": 7}, at_both(10, 1, "\x1b[2J) 0 x", [50], [57], block="f0")),
    ({}, at_both(11, 1, "app", [5], [9], block=BLOCK)),
    # Kernel threads are nobody's.
    ({}, at_both(40, 2, "kworker/0:1", [100], [900], flags=KERNEL)),
    # A shell runs one short program after another: none of them is seen by either reading.
    ({"sh": 81}, at_both(50, 1, "sh", [1, 1000], [2, 1080])),
    # Slurm's daemon forks, and the fork becomes the application.
    ({}, [process(65, 1, "slurmstepd", 1), process(65, 1, "app", 400, block=BLOCK)]),
    # The PID of another.
    ({"new": 20}, [process(70, 1, "old", 500, start=5), process(70, 1, "new", 20, start=900)]),
    # A zombie has no environment left: the block's own, and a new one.
    ({}, [SHELL | APP, SHELL | ZOMBIE]),
    ({}, [SHELL, SHELL | ZOMBIE]),
]


def foreign_ticks(tmp_path, before, after, **options):
    first = reading(tmp_path / "before", before, **options)
    last = reading(tmp_path / "after", after, earlier=first, **options)
    return {name: used * TICKS for name, used in cpu_load.foreign_s(first, last).items() if used}


@pytest.mark.parametrize(("ticks", "processes"), READINGS)
def test_foreign_processes_have_the_ticks_that_they_used_between_the_readings(
    tmp_path, ticks, processes
):
    assert foreign_ticks(tmp_path, *processes) == pytest.approx(ticks)


def test_what_descends_from_the_conductor_is_its_own_whatever_its_environment(tmp_path):
    conductor, env = at_both(20, 1, "conductor", [1], [9]), at_both(21, 20, "env", [2], [9])
    app = at_both(22, 21, "app", [3], [99])
    trees = [c | e | a for c, e, a in zip(conductor, env, app, strict=True)]
    assert foreign_ticks(tmp_path, *trees, roots=[20]) == {}


def test_the_owner_alone_is_exempt_and_not_what_it_starts(tmp_path):
    reframe, sacct = at_both(30, 1, "reframe", [100], [150, 60]), at_both(31, 30, "sacct", [1], [4])
    trees = [owner | child for owner, child in zip(reframe, sacct, strict=True)]
    assert foreign_ticks(tmp_path, *trees, exempt=[30]) == pytest.approx({"sacct": 3})


def test_a_parent_gets_the_times_of_what_has_ended(tmp_path):
    """make waits for cc, which ended after 40 more ticks, and cc for cc1, after 5."""
    make, ended = at_both(60, 1, "make", [1], [1, 100 + 40 + 3000 + 5])
    begun = make | process(61, 60, "cc", 100) | process(62, 61, "cc1", 3000)
    assert foreign_ticks(tmp_path, begun, ended) == pytest.approx({"make": 45})


def test_what_had_ended_before_counts_for_nothing_when_its_parent_waits_for_it(tmp_path):
    """Beside it the parent waits for another, which used 30 ticks in between."""
    make, waited = at_both(60, 1, "make", [1], [1, 2297 + 30])
    begun = make | process(61, 60, "cc1", 2297, state="Z")
    assert foreign_ticks(tmp_path / "waited", begun, waited) == pytest.approx({"make": 30})
    still = process(60, 1, "make", 1, 30) | process(61, 60, "cc1", 2297, state="Z")
    assert foreign_ticks(tmp_path / "still", begun, still) == pytest.approx({"make": 30})


def test_no_more_than_the_threads_of_the_host_had(tmp_path):
    """Two threads for 1.3 s are 260 ticks; a process of which nothing was known adopts 2298."""
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


@pytest.mark.parametrize(("pid", "name"), [(80, "slurmstepd"), (1, "init")])
def test_times_of_the_application_are_not_its_parents(tmp_path, pid, name):
    """A step's daemon, and whoever adopts orphans."""
    before, after = at_both(pid, 0, name, [5, 0], [6, 700])
    begun = before | process(81, pid, "app", 100, block=BLOCK)
    assert foreign_ticks(tmp_path, begun, after) == pytest.approx({name: 1})


def test_hidden_processes_are_unknown_and_not_none(tmp_path):
    seen = reading(tmp_path / "a", process(10, 1))
    (tmp_path / "b/proc/1").mkdir(parents=True)
    write(tmp_path / "b", {"proc/stat": "cpu  1 0 0 1 0 0 0 0 0 0"})
    hidden = cpu_load.read(BLOCK, [], root=tmp_path / "b")
    assert cpu_load.foreign_s(hidden, hidden) is None
    assert cpu_load.foreign_s(seen, seen) == {"init": 0, "work": 0}


def test_steal_is_a_share_of_all_time(tmp_path):
    # user nice system idle iowait irq softirq steal guest: 400 ticks pass, 12 of them stolen. What
    # guests used is part of user.
    before = reading(tmp_path / "a", stat="cpu  100 0 10 50 5 1 2 30 90 0")
    after = reading(tmp_path / "b", stat="cpu  300 10 40 180 8 6 12 42 270 0")
    assert after.stolen_ticks - before.stolen_ticks == 12
    assert after.total_ticks - before.total_ticks == 400
    # An old kernel does not count it.
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


def test_what_kernel_threads_used_since_the_first_reading(tmp_path):
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
    # 30 and 1 + 5 ticks; neither ksoftirqd, which is in the time of soft interrupts, nor lmp.
    assert threads.read_s() == pytest.approx(36 / TICKS)
    assert threads.by_cpu_s() == pytest.approx({0: 30 / TICKS, 7: 6 / TICKS})
    # A PID is another thread's now, which has used 3 ticks since it started.
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
            # A launcher, which sleeps and may run anywhere.
            **busy_thread(30, 30, 0.4, "0-7"),
            # Another's.
            **busy_thread(99, 99, 9.0, "7"),
        },
    )
    busy = cpu_load.busy_cpus([10, 20, 30, 31], 10.0, root)
    assert busy == {0, 1, 2, 4}
    assert cpu_load.free_cpus(busy, root) == "3,5-7"


@pytest.mark.parametrize(
    ("allowed", "free"), [("0-127", ""), ("", None), ("3-1", None), ("x", None)]
)
def test_what_may_run_anywhere_leaves_nothing_and_what_is_unreadable_is_unknown(
    tmp_path, allowed, free
):
    root = write(
        tmp_path, {"sys/devices/system/cpu/online": "0-3", **busy_thread(10, 10, 9.0, allowed)}
    )
    assert cpu_load.free_cpus(cpu_load.busy_cpus([10], 10.0, root), root) == free
