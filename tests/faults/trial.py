"""Makes one trial: starts a campaign, disturbs it with a fault, and observes what is left."""

import fcntl
import json
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.faults.actions import ACTIONS, Hit
from tests.faults.checks import PAIRS, NimcEnd, Observation, reasons_naming
from tests.faults.host import Host, Nimc, Process, wait_until, with_role
from tests.faults.table import Fault

#: Number of complete pairs of the interrupted campaign that most trials continue. One pair is
#: missing.
_COMPLETE_PAIRS = PAIRS - 1
#: On average, one of this many trials starts a new campaign.
_NEW_EVERY = 6
#: A fault that acts on a process of a block happens within this first share of the campaign, since
#: these processes end before the campaign.
_BLOCK_SHARE = 0.6
#: How long a trial waits for a process on which the fault can act (the victim), seconds.
_VICTIM_S = 300.0
#: Longest delay between the appearance of the victim and the fault, seconds.
_DELAY_S = 0.5
#: How often a campaign is resumed at most.
_RESUMPTIONS = 3
#: The longest that an undisturbed campaign takes, seconds.
_LONGEST_S = 600.0
#: A trial with a planted fault ends when this many runs were rejected because of the fault.
_ENOUGH_REJECTED = 2
#: How much longer than its campaign a resumption may take, seconds, since it waits for processes
#: that were killed.
_RESUMPTION_S = 120.0


@dataclass(frozen=True)
class InterruptedCampaign:
    """A campaign that was interrupted, and that trials continue."""

    results: Path
    #: How long the campaign takes from the beginning, and how long only the missing part takes,
    #: seconds.
    full_length_s: float
    missing_s: float


def begin(host: Host) -> InterruptedCampaign:
    """Make an interrupted campaign, and measure how long an undisturbed one takes."""
    with host.opened("begun"):
        began_s = time.monotonic()
        nimc = host.start("begun")
        assert wait_until(
            lambda: _lines(host).count(b"\n") >= 2 * _COMPLETE_PAIRS or not nimc.running, _LONGEST_S
        )
        complete_s = time.monotonic() - began_s
        nimc.process.terminate()
        stopped = nimc.end(60.0)
        assert stopped.status == 143, stopped
        kept = host.folder / "kept"
        shutil.copytree(host.sandbox.results, kept, symlinks=True)
        began_s = time.monotonic()
        rest = host.start("rest").end(_LONGEST_S)
        assert rest.status == 0, rest
        return InterruptedCampaign(
            kept, complete_s * PAIRS / _COMPLETE_PAIRS, time.monotonic() - began_s
        )


def run(
    host: Host, interrupted: InterruptedCampaign, fault: Fault, rng: random.Random, name: str
) -> Observation | None:
    """Make one trial with a single fault.

    Returns None if the campaign ended before there was a process on which the fault could act.
    """
    fresh = rng.randrange(_NEW_EVERY) == 0
    usual_s = interrupted.full_length_s if fresh else interrupted.missing_s
    moment_s = rng.uniform(0.0, usual_s if fault.victim in ("", "nimc") else _BLOCK_SHARE * usual_s)
    at_once = rng.random() < 0.5
    with host.opened(name, fault):
        if not fresh:
            shutil.copytree(
                interrupted.results, host.sandbox.results, symlinks=True, dirs_exist_ok=True
            )
        runs_before = _runs(host)
        nimc = host.start("disturbed")
        victim = _victim(host, nimc, fault, moment_s, rng)
        samples_before, header_before = _lines(host), _header(host)
        if not nimc.running or (fault.victim and victim is None):
            return None
        fault_start_s = time.time()
        second = ACTIONS[fault.action](Hit(host, victim, rng))
        fault_end_s = time.time()
        disturbed = nimc.end(host.patience * fault.bound_s + 2 * usual_s)
        if second and _ended_before(host):
            return None
        if fault.action == "node_off":
            host.repair()  # before this, Slurm keeps the jobs, and no campaign can be resumed
        if not (at_once and fault.mute):
            disturbed = _with_leftovers(host, disturbed)
        resumed: list[NimcEnd] = []
        while [disturbed, *resumed][-1].status != 0 and len(resumed) < _RESUMPTIONS:
            resumption = _resume(host, f"resumed-{len(resumed)}")
            resumed.append(
                _with_leftovers(host, resumption.end(host.patience * _RESUMPTION_S + 2 * usual_s))
            )
        return Observation(
            fault=fault,
            fault_times_s=None if host.own_clocks else (fault_start_s, fault_end_s),
            disturbed=disturbed,
            resumed=resumed,
            runs_before=runs_before,
            runs=_runs(host),
            samples_before=samples_before,
            samples=_lines(host),
            header_before=header_before,
            header=_header(host),
            files=[*host.files(), *_partial(host)],
            second=second,
        )


def plant(host: Host, fault: Fault, name: str) -> Observation:
    """Make one trial with a planted fault, which lasts all the time."""
    with host.opened(name, fault):
        nimc = host.start("planted")
        hit = Hit(host, None, random.Random())

        def goes_on() -> bool:
            ACTIONS[fault.action](hit)
            return not nimc.running or len(reasons_naming(fault, _lines(host))) >= _ENOUGH_REJECTED

        ended = wait_until(goes_on, host.patience * fault.bound_s + _LONGEST_S)
        for process in filter(None, hit.done.values()):
            process.kill()
            process.wait()
        if ended and nimc.running:
            nimc.process.terminate()
        disturbed = _with_leftovers(host, nimc.end(host.patience * fault.bound_s if ended else 0.0))
        header = _header(host)
        return Observation(
            fault=fault,
            fault_times_s=None,
            disturbed=disturbed,
            resumed=[],
            runs_before=[],
            runs=_runs(host),
            samples_before=b"",
            samples=_lines(host),
            header_before=header,
            header=header,
            # A killed agent leaves temporary files, which the next agent would remove.
            files=_partial(host),
        )


def _ended_before(host: Host) -> bool:
    """Return whether a second nimc started a new campaign run after the first one was complete."""
    files = (run / "run.json" for run in _folders(host))
    headers = [json.loads(file.read_text()) for file in files if file.exists()]
    headers.sort(key=lambda header: float(header["started_s"]))
    ended = [header["finished_s"] for header in headers[:1] if header["finished_s"] is not None]
    return any(ended_s <= header["started_s"] for ended_s in ended for header in headers[1:])


def _resume(host: Host, name: str) -> Nimc:
    """Resume the campaign; if it is complete, only make its report.

    `nimc run` would start a new campaign run if this one is complete.
    """
    header = _header(host)
    if header and header["finished_s"] is not None:
        # The path is absolute: a relative one would begin in the current folder, which is outside
        # the namespace, where the file system of the results is not mounted.
        run = host.sandbox.work / "results" / header["run"]
        return host.nimc(name, "report", str(run))
    return host.start(name)


def _victim(
    host: Host, nimc: Nimc, fault: Fault, moment_s: float, rng: random.Random
) -> Process | None:
    """Wait for `moment_s` seconds, then for a process on which the fault can act.

    Returns None if there is no such process.
    """

    def candidates() -> list[Process]:
        return with_role(fault.victim, host.victims())

    wait_until(lambda: not nimc.running, moment_s)
    if fault.victim in ("", "nimc"):
        return Process(nimc.process.pid, ()) if fault.victim else None
    if not candidates():
        wait_until(lambda: bool(candidates()) or not nimc.running, _VICTIM_S)
        time.sleep(rng.uniform(0.0, _DELAY_S))
    victims = candidates()
    return rng.choice(victims) if victims else None


def _with_leftovers(host: Host, ended: NimcEnd) -> NimcEnd:
    return replace(ended, leftovers=[*host.leftovers(), *_locked(host)])


def _locked(host: Host) -> Iterator[str]:
    for path in (run / "lock" for run in _folders(host) if (run / "lock").exists()):
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield f"lock {path.name}"


def _folders(host: Host) -> list[Path]:
    """Return the folders of all campaign runs, without the link `latest`."""
    folders = host.sandbox.results.iterdir()
    return sorted(path for path in folders if path.is_dir() and not path.is_symlink())


def _runs(host: Host) -> list[str]:
    return [path.name for path in _folders(host)]


def _lines(host: Host) -> bytes:
    files = (path for run in _folders(host) for path in sorted(run.glob("samples/*.jsonl")))
    text = b"".join(path.read_bytes() for path in files)
    return text[: text.rfind(b"\n") + 1]


def _header(host: Host) -> dict[str, Any] | None:
    for path in (run / "run.json" for run in _folders(host)):
        if path.exists():
            header: dict[str, Any] = json.loads(path.read_text())
            return header
    return None


def _partial(host: Host) -> list[str]:
    files = host.sandbox.results.rglob("*")
    return [f"file {path.name}" for path in files if path.suffix in (".new", ".partial")]
