"""What an application leaves free, from a made /proc and from a real process."""

import os
import subprocess
import sys
import time

import pytest

from nimc.machine.load import busy_cpus, left_free
from tests.nimc.machine.test_load import TICKS, stat
from tests.nimc.node.sysfs import write


def thread(pid, tid, seconds, allowed):
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
            **thread(10, 10, 9.0, "0"),
            **thread(10, 11, 8.0, "1,2"),
            **thread(20, 20, 9.5, "4"),
            # A launcher, which sleeps and may run anywhere.
            **thread(30, 30, 0.4, "0-7"),
            # Another's.
            **thread(99, 99, 9.0, "7"),
        },
    )
    busy = busy_cpus([10, 20, 30, 31], 10.0, root)
    assert busy == {0, 1, 2, 4}
    assert left_free(busy, root) == "3,5-7"


@pytest.mark.parametrize(
    ("allowed", "free"), [("0-127", ""), ("", None), ("3-1", None), ("x", None)]
)
def test_what_may_run_anywhere_leaves_nothing_and_what_is_unreadable_is_unknown(
    tmp_path, allowed, free
):
    root = write(tmp_path, {"sys/devices/system/cpu/online": "0-3", **thread(10, 10, 9.0, allowed)})
    assert left_free(busy_cpus([10], 10.0, root), root) == free


def test_a_busy_process_of_this_host_takes_the_core_that_it_is_bound_to():
    last = max(os.sched_getaffinity(0))
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", "while True: pass"],
        preexec_fn=lambda: os.sched_setaffinity(0, {last}),
    )
    try:
        began_s = time.monotonic()
        while not (busy := busy_cpus([process.pid], 0.5)) and time.monotonic() - began_s < 60:
            time.sleep(0.02)
        assert busy == {last}
    finally:
        process.kill()
        process.wait()
