"""The share of a core that this project takes beside an application, with `mpi_put`."""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from bench import BenchRow, below
from records import kernel_text
from records.checkout import ROOT
from records.errors import MachineError

#: Of a run, and what of it is looked at; how many runs under writes.
_RUN_S, _WINDOW_S, _RUNS = 16.0, 12.0, 5
#: An application that takes no processor time, and prints what it slept.
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
#: Words of a command line, and whose process it then is: the first that fits.
_PARTS = {
    f"sleep {_RUN_S}": "application",
    "/mpi_put ": "writers",
    "conductor.agent.agent": "agents",
    "reframe_tests.conduct": "conductor",
    "nimc.cli.main": "`nimc run`",
    "reframe": "ReFrame",
}
_OWN = ("ReFrame", "agents", "conductor", "`nimc run`")
_AIM = 0.02


def run() -> list[BenchRow]:
    """Medians over the runs under writes: of each part, and of all together."""
    with tempfile.TemporaryDirectory(prefix="nimc-", dir="/var/tmp") as folder:
        windows = _windows(Path(folder))
    rows = [
        BenchRow(f"{part}: share of a core", statistics.median(shares[part] for shares in windows))
        for part in _OWN
    ]
    together = statistics.median(sum(shares[part] for part in _OWN) for shares in windows)
    return [*rows, below("together", together, "", _AIM)]


def _windows(folder: Path) -> list[dict[str, float]]:
    """Part -> its share of a core, of each run under writes; the campaign is then ended."""
    (folder / "sleeping.py").write_text(_CHECK)
    (folder / "sleeping.yaml").write_text(yaml.safe_dump(_CAMPAIGN))
    main = "from nimc.cli.main import main; main()"
    file = str(folder / "sleeping.yaml")
    words = ["run", file, "--machine", "localhost", "--results", str(folder)]
    windows: list[dict[str, float]] = []
    with subprocess.Popen([sys.executable, "-c", main, *words], cwd=ROOT) as campaign:
        while len(windows) < _RUNS and campaign.poll() is None:
            first = _times_s(campaign.pid)
            if "application" not in first:
                time.sleep(0.5)
                continue
            time.sleep(_WINDOW_S)
            second = _times_s(campaign.pid)
            shares = {part: (second.get(part, 0.0) - first[part]) / _WINDOW_S for part in first}
            if "application" in second and shares.get("writers", 0.0) > 0.5:
                windows.append(shares)
            while "application" in _times_s(campaign.pid):
                time.sleep(0.5)
        campaign.terminate()
    if len(windows) < _RUNS:
        raise MachineError(f"{len(windows)} runs under writes, not {_RUNS}; see what is said above")
    return windows


def _times_s(campaign: int) -> dict[str, float]:
    """Part -> processor time of its processes, which descend from the campaign's."""
    times_s: dict[str, float] = {}
    for pid in kernel_text.with_descendants([campaign], dict(kernel_text.stats())):
        process = Path("/proc", str(pid))
        command = kernel_text.read(process / "cmdline").replace("\0", " ")
        for words, part in _PARTS.items():
            if words in command:
                times_s[part] = times_s.get(part, 0.0) + _time_s(process)
                break
    return times_s


def _time_s(process: Path) -> float:
    """Of all threads; a tick of `stat` would be a tenth of a per cent of a window."""
    tasks = process / "task"
    texts = [kernel_text.read(tasks / f"{pid}/schedstat") for pid in kernel_text.pids(tasks)]
    return sum(int(text.split()[0]) for text in texts if text) / 1e9
