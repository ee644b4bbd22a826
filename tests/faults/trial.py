"""One trial: a campaign, one fault at a random moment, and what is found afterwards."""

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
from tests.faults.checks import PAIRS, Ended, Observed, named
from tests.faults.host import Host, Nimc, Process, having, wait_until
from tests.faults.table import Fault

#: Complete pairs of the campaigns that most trials continue: one is missing.
_THERE = PAIRS - 1
#: One trial in so many starts from nothing.
_FRESH = 6
#: Processes of a block end before the campaign does: their faults happen in this share of it.
_LAST = 0.6
#: How long a victim is waited for; the fault then comes up to so much later, seconds.
_LATER_S = 0.5
_APPEARS_S = 300.0
_RESUMPTIONS = 3
#: The longest that a campaign takes that nothing disturbs.
_LONGEST_S = 600.0
#: Runs that are rejected for a planted fault; the rest is left out.
_ENOUGH = 2
#: How long a resumption may take longer than the campaign: it waits for what a killed one left.
_WAITS_S = 120.0


@dataclass(frozen=True)
class Begun:
    """A campaign that was interrupted, to be continued by trials."""

    #: Its results.
    results: Path
    #: What the whole campaign takes, and what is missing, seconds.
    whole_s: float
    rest_s: float


def begin(place: Host) -> Begun:
    """Make such a campaign, and measure how long one takes that nothing disturbs."""
    with place.opened("begun"):
        began_s = time.monotonic()
        nimc = place.start("begun")
        assert wait_until(
            lambda: _lines(place).count(b"\n") >= 2 * _THERE or not nimc.running, _LONGEST_S
        )
        there_s = time.monotonic() - began_s
        nimc.process.terminate()
        stopped = nimc.end(60.0)
        assert stopped.status == 143, stopped
        kept = place.folder / "kept"
        shutil.copytree(place.sandbox.results, kept, symlinks=True)
        began_s = time.monotonic()
        rest = place.start("rest").end(_LONGEST_S)
        assert rest.status == 0, rest
        return Begun(kept, there_s * PAIRS / _THERE, time.monotonic() - began_s)


def run(place: Host, begun: Begun, fault: Fault, rng: random.Random, name: str) -> Observed | None:
    """Make one trial; None if the campaign ended before there was a victim."""
    fresh = rng.randrange(_FRESH) == 0
    usual_s = begun.whole_s if fresh else begun.rest_s
    moment_s = rng.uniform(0.0, usual_s if fault.victim in ("", "nimc") else _LAST * usual_s)
    at_once = rng.random() < 0.5
    with place.opened(name, fault):
        if not fresh:
            shutil.copytree(begun.results, place.sandbox.results, symlinks=True, dirs_exist_ok=True)
        runs_before = _runs(place)
        nimc = place.start("disturbed")
        victim = _victim(place, nimc, fault, moment_s, rng)
        reported, header_before = _lines(place), _header(place)
        if not nimc.running or (fault.victim and victim is None):
            return None
        struck_s = time.time()
        second = ACTIONS[fault.action](Hit(place, victim, rng))
        over_s = time.time()
        disturbed = nimc.end(place.patience * fault.bound_s + 2 * usual_s)
        if second and _ended_before(place):
            return None
        if fault.action == "node_off":
            place.repair()  # until then Slurm keeps its jobs, and nothing can be resumed
        if not (at_once and fault.mute):
            disturbed = _with_left(place, disturbed)
        resumed: list[Ended] = []
        while [disturbed, *resumed][-1].status != 0 and len(resumed) < _RESUMPTIONS:
            again = _again(place, f"resumed-{len(resumed)}")
            resumed.append(_with_left(place, again.end(place.patience * _WAITS_S + 2 * usual_s)))
        return Observed(
            fault=fault,
            struck_s=None if place.own_clocks else (struck_s, over_s),
            disturbed=disturbed,
            resumed=resumed,
            runs_before=runs_before,
            runs=_runs(place),
            reported=reported,
            samples=_lines(place),
            header_before=header_before,
            header=_header(place),
            files=[*place.files(), *_partial(place)],
            second=second,
        )


def plant(place: Host, fault: Fault, name: str) -> Observed:
    """Make one trial with a fault that is there all the time."""
    with place.opened(name, fault):
        nimc = place.start("planted")
        hit = Hit(place, None, random.Random())

        def goes_on() -> bool:
            ACTIONS[fault.action](hit)
            return not nimc.running or len(named(fault, _lines(place))) >= _ENOUGH

        ended = wait_until(goes_on, place.patience * fault.bound_s + _LONGEST_S)
        for process in filter(None, hit.done.values()):
            process.kill()
            process.wait()
        if ended and nimc.running:
            nimc.process.terminate()
        disturbed = _with_left(place, nimc.end(place.patience * fault.bound_s if ended else 0.0))
        header = _header(place)
        return Observed(
            fault=fault,
            struck_s=None,
            disturbed=disturbed,
            resumed=[],
            runs_before=[],
            runs=_runs(place),
            reported=b"",
            samples=_lines(place),
            header_before=header,
            header=header,
            files=_partial(place),  # the next agent removes what one that was killed has left
        )


def _ended_before(place: Host) -> bool:
    """Whether the second nimc began a run of its own when the first one's was complete."""
    files = (run / "run.json" for run in _folders(place))
    headers = [json.loads(file.read_text()) for file in files if file.exists()]
    headers.sort(key=lambda header: float(header["started_s"]))
    ended = [header["finished_s"] for header in headers[:1] if header["finished_s"] is not None]
    return any(ended_s <= each["started_s"] for ended_s in ended for each in headers[1:])


def _again(place: Host, name: str) -> Nimc:
    """Resume the campaign; if it is complete, make its report, which another run would not do."""
    header = _header(place)
    if header and header["finished_s"] is not None:
        # Not relative: the working folder is outside, without the file system of the results.
        run = place.sandbox.work / "results" / header["run"]
        return place.nimc(name, "report", str(run))
    return place.start(name)


def _victim(
    place: Host, nimc: Nimc, fault: Fault, moment_s: float, rng: random.Random
) -> Process | None:
    """Wait for the moment, and for a process of the role: the one to be hit."""

    def candidates() -> list[Process]:
        return having(fault.victim, place.victims())

    wait_until(lambda: not nimc.running, moment_s)
    if fault.victim in ("", "nimc"):
        return Process(nimc.process.pid, ()) if fault.victim else None
    if not candidates():
        wait_until(lambda: bool(candidates()) or not nimc.running, _APPEARS_S)
        time.sleep(rng.uniform(0.0, _LATER_S))
    there = candidates()
    return rng.choice(there) if there else None


def _with_left(place: Host, ended: Ended) -> Ended:
    return replace(ended, left=[*place.left(), *_locked(place)])


def _locked(place: Host) -> Iterator[str]:
    for path in (run / "lock" for run in _folders(place) if (run / "lock").exists()):
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield f"lock {path.name}"


def _folders(place: Host) -> list[Path]:
    """Folders of all runs, without the link `latest`."""
    folders = place.sandbox.results.iterdir()
    return sorted(path for path in folders if path.is_dir() and not path.is_symlink())


def _runs(place: Host) -> list[str]:
    return [path.name for path in _folders(place)]


def _lines(place: Host) -> bytes:
    files = (path for run in _folders(place) for path in sorted(run.glob("samples/*.jsonl")))
    text = b"".join(path.read_bytes() for path in files)
    return text[: text.rfind(b"\n") + 1]


def _header(place: Host) -> dict[str, Any] | None:
    for path in (run / "run.json" for run in _folders(place)):
        if path.exists():
            header: dict[str, Any] = json.loads(path.read_text())
            return header
    return None


def _partial(place: Host) -> list[str]:
    files = place.sandbox.results.rglob("*")
    return [f"file {path.name}" for path in files if path.suffix in (".new", ".partial")]
