"""Measures the share of a core that this project uses beside an application and `mpi_put`."""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from bench import BenchRow, row_with_upper_limit
from records import kernel_text
from records.checkout import ROOT
from records.errors import MachineError

_RUN_S = 16.0
#: Length of the part of a run in which processor time is counted, seconds.
_WINDOW_S = 12.0
#: Number of runs under writes.
_RUNS = 5
#: An application that takes no processor time, and prints how long it slept.
_CHECK = f"""
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function
from reframe_tests.mixin import NimcMixin

@rfm.simple_test
class sleeping(rfm.RunOnlyRegressionTest, NimcMixin):
    valid_systems = ["*"]
    valid_prog_environs = ["wheels"]
    executable = "sleep {_RUN_S}; echo slept {_RUN_S} s"
    sanity_patterns = sn.assert_found("slept", "rfm_job.out")

    @performance_function("s")
    def length(self):
        return sn.extractsingle(r"slept (\\S+) s", self.stdout, 1, float)
"""
_CAMPAIGN = {
    "name": "sleeping",
    "workloads": [{"check": "sleeping.py:sleeping", "expect": f"{_RUN_S:g}s"}],
    "arms": ["off", "on"],
    "pairs": {"floor": 6, "cap": 6},
    "injector": {"name": "mpi_put"},
    "verify": {"foreign_cpus": None, "steal_share": None, "frequency_drop": None},
}
#: Words of a command line -> name of the part to which its process belongs. The first match counts.
_PARTS = {
    f"sleep {_RUN_S}": "application",
    "/mpi_put ": "writers",
    "conductor.agent.agent": "agents",
    "reframe_tests.conduct": "conductor",
    "nimc.cli.main": "`nimc run`",
    "reframe": "ReFrame",
}
#: Parts of this project that run beside an application.
_PROJECT_PARTS = ("ReFrame", "agents", "conductor", "`nimc run`")
#: Aim: largest share of a core that these parts may use together.
_MAX_SHARE = 0.02
#: Smallest share of a core that writers use in a run under writes.
_MIN_WRITERS_SHARE = 0.5


def run() -> list[BenchRow]:
    """Measure the share of each part, and of all together, as medians over runs under writes."""
    with tempfile.TemporaryDirectory(prefix="nimc-", dir="/var/tmp") as folder:
        all_shares = _shares_by_window(Path(folder))
    rows = [
        BenchRow(
            f"{part}: share of a core", statistics.median(shares[part] for shares in all_shares)
        )
        for part in _PROJECT_PARTS
    ]
    together = statistics.median(
        sum(shares[part] for part in _PROJECT_PARTS) for shares in all_shares
    )
    return [*rows, row_with_upper_limit("together", together, "", _MAX_SHARE)]


def _shares_by_window(folder: Path) -> list[dict[str, float]]:
    """Run a campaign; return part -> its share of a core, for each of `_RUNS` runs under writes."""
    (folder / "sleeping.py").write_text(_CHECK)
    (folder / "sleeping.yaml").write_text(yaml.safe_dump(_CAMPAIGN))
    main = "from nimc.cli.main import main; main()"
    file = str(folder / "sleeping.yaml")
    arguments = ["run", file, "--machine", "localhost", "--results", str(folder)]
    all_shares: list[dict[str, float]] = []
    with subprocess.Popen([sys.executable, "-c", main, *arguments], cwd=ROOT) as campaign:
        while len(all_shares) < _RUNS and campaign.poll() is None:
            at_begin_s = _cpu_s_by_part(campaign.pid)
            if "application" not in at_begin_s:
                time.sleep(0.5)
                continue
            time.sleep(_WINDOW_S)
            at_end_s = _cpu_s_by_part(campaign.pid)
            shares = {
                part: (at_end_s.get(part, 0.0) - cpu_s) / _WINDOW_S
                for part, cpu_s in at_begin_s.items()
            }
            has_writers = shares.get("writers", 0.0) > _MIN_WRITERS_SHARE
            if "application" in at_end_s and has_writers:
                all_shares.append(shares)
            while "application" in _cpu_s_by_part(campaign.pid):
                time.sleep(0.5)
        campaign.terminate()
    if len(all_shares) < _RUNS:
        raise MachineError(
            f"{len(all_shares)} runs under writes, not {_RUNS}; see the output above"
        )
    return all_shares


def _cpu_s_by_part(campaign_pid: int) -> dict[str, float]:
    """Return part -> processor time of its processes among the campaign process's descendants."""
    cpu_s_by_part: dict[str, float] = {}
    for pid in kernel_text.with_descendants([campaign_pid], dict(kernel_text.stats())):
        process = Path("/proc", str(pid))
        command = kernel_text.read(process / "cmdline").replace("\0", " ")
        for words, part in _PARTS.items():
            if words in command:
                cpu_s_by_part[part] = cpu_s_by_part.get(part, 0.0) + _cpu_s(process)
                break
    return cpu_s_by_part


def _cpu_s(process: Path) -> float:
    """Return the processor time of all threads of a process.

    `schedstat` counts nanoseconds. A tick of `stat` would be a tenth of a per cent of a window.
    """
    tasks = process / "task"
    texts = [kernel_text.read(tasks / f"{tid}/schedstat") for tid in kernel_text.pids(tasks)]
    return sum(int(text.split()[0]) for text in texts if text) / 1e9
