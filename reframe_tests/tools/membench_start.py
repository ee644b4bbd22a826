"""Runs membench on the last cores of this node while the application runs.

Started by the tool `membench_load`.

Arguments: the file to write, the kernel, the number of cores, the application. Exits as the
application does. Standard library only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

#: The longest that membench takes; it is stopped when the application ends.
_LONGEST_S = 86_400
_POLL_S = 0.01
_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def main(file: str, kernel: str, cores: str, application: list[str]) -> int:
    """Exit status of the application."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    everywhere = os.sched_getaffinity(0)
    cpus = [cpu for cpu in sorted(everywhere) if _is_first(cpu)][-int(cores) :]
    if taken := own & set(cpus):
        sys.exit(
            f"membench:{kernel}:{cores}: CPUs {_listed(taken)} are the application's;"
            " leave them free with reserved_cores"
        )
    options = ["--cpus", _listed(set(cpus)), "-d", str(_LONGEST_S)]
    with subprocess.Popen(["membench", kernel, *options], stdout=subprocess.PIPE) as membench:
        os.sched_setaffinity(0, own)
        try:
            _wait_for_arrays(membench, len(cpus))
            before_s, start_s = _cpu_s(membench.pid), time.monotonic()
            # MPI launchers speak with a rank over descriptors that it inherits.
            status = subprocess.call(application, close_fds=False)
            busy_s, elapsed_s = _cpu_s(membench.pid) - before_s, time.monotonic() - start_s
            if membench.poll() is None:
                Path(file).write_text(json.dumps({"busy_s": busy_s, "elapsed_s": elapsed_s}))
        except OSError as error:
            sys.exit(f"membench:{kernel}:{cores}: {error}")
        finally:
            membench.kill()
    return status if status >= 0 else 128 - status


def _is_first(cpu: int) -> bool:
    """Whether it is the first hardware thread of its core."""
    try:
        siblings = Path(_SIBLINGS.format(cpu)).read_text()
    except OSError:
        return True
    return siblings.replace("-", ",").split(",")[0].strip() == str(cpu)


def _wait_for_arrays(membench: subprocess.Popen[bytes], cores: int) -> None:
    """Until all arrays are in memory; from then on membench stores."""
    assert membench.stdout
    expected_b = None
    for line in membench.stdout:
        if b" bytes a core" in line:
            arrays, _, _, size_b, *_ = line.split()
            expected_b = cores * int(arrays) * int(size_b)
            break
    page_b = os.sysconf("SC_PAGESIZE")
    while expected_b is not None and membench.poll() is None:
        resident = int(Path(f"/proc/{membench.pid}/statm").read_text().split()[1])
        if resident * page_b >= expected_b:
            return
        time.sleep(_POLL_S)
    sys.exit("membench ended before the application started")


def _cpu_s(pid: int) -> float:
    """Processor time of a process, seconds."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _listed(cpus: set[int]) -> str:
    return ",".join(map(str, sorted(cpus)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
