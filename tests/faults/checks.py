"""What must hold after a fault. Pure functions of what was observed; each yields its violations."""

import json
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.faults.table import Fault

#: Of the small campaign (`campaign.TEXT`).
PAIRS = 6
ARMS = {"off", "on"}
MIN_SHARE = 0.05
_LONGEST_LINE = 1000


@dataclass(frozen=True)
class Ended:
    status: int | None
    err: str
    #: The longest that was allowed; it was killed then, and has no status.
    bound_s: float
    #: Processes and Slurm's jobs that were there a while after its end, and locks that were held.
    left: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Observed:
    """A campaign that was disturbed once and then resumed until it was done."""

    fault: Fault
    #: When the fault began and ended, Unix time; None if samples bear times of another clock.
    struck_s: tuple[float, float] | None
    disturbed: Ended
    #: The calls of nimc that resumed it.
    resumed: list[Ended]
    #: Names of the runs before the fault, where there were any, and in the end.
    runs_before: list[str]
    runs: list[str]
    #: Whole lines of the samples at the fault; the file in the end.
    reported: bytes
    samples: bytes
    #: `run.json` at the fault, None where there was none yet, and in the end.
    header_before: dict[str, Any] | None
    header: dict[str, Any] | None
    #: Files in folders for temporary files, and half-written ones in the run, in the end.
    files: list[str]
    #: The second nimc of two at once.
    second: Ended | None = None

    @property
    def nimcs(self) -> list[Ended]:
        return [self.disturbed, *self.resumed, *([self.second] if self.second else [])]


def nothing_left(seen: Observed) -> Iterator[str]:
    for ended in seen.nimcs:
        yield from ended.left
    yield from seen.files


def reported_stays(seen: Observed) -> Iterator[str]:
    """Every sample that was reported at the fault is there in the end, byte for byte."""
    if not seen.samples.startswith(seen.reported):
        yield f"{seen.reported.count(10)} samples at the fault are not the file's first in the end"
    if seen.samples and not seen.samples.endswith(b"\n"):
        yield "the last line is incomplete"


def readable_once(seen: Observed) -> Iterator[str]:
    """Every sample is one JSON document, and no key occurs twice."""
    keys: Counter[str] = Counter()
    for number, line in enumerate(seen.samples.split(b"\n")[:-1], 1):
        try:
            keys[json.loads(line)["key"]] += 1
        except (ValueError, KeyError, TypeError) as error:
            yield f"line {number}: {error}"
    yield from (f"{key} occurs {times} times" for key, times in keys.items() if times > 1)


def counted_is_proven(seen: Observed) -> Iterator[str]:
    """An accepted `on` run has a proven writer at its rate; an accepted `off` run has none."""
    for sample in _accepted(seen.samples):
        key, writers = sample["key"], sample["writers"]
        if sample["arm"] == "off" and writers:
            yield f"{key}: an 'off' run with writers"
        if sample["arm"] == "on" and len(writers) != 1:
            yield f"{key}: {len(writers)} writers"
        for writer in writers:
            if not writer["rate_min_b_s"] >= MIN_SHARE * writer["rate_alone_b_s"]:
                yield f"{key}: {writer['rate_min_b_s']} B/s at least"
            if not (writer["proof"] and writer["observed_share"] > 0):
                yield f"{key}: proof {writer['proof']}, observed {writer['observed_share']}"


def silenced_is_not_counted(seen: Observed) -> Iterator[str]:
    """No `on` run counts in which a writer was killed, or that lies in a time when it stood.

    And no `off` run in which a held one was continued.
    """
    if not (seen.fault.silences or seen.fault.wakes) or seen.struck_s is None:
        return
    from_s, to_s = seen.struck_s
    killed = seen.fault.action != "stop"
    for sample in _accepted(seen.samples):
        start_s, end_s = sample["start_s"], sample["start_s"] + sample["elapsed_s"]
        inside = from_s <= start_s and end_s <= to_s
        arm = "off" if seen.fault.wakes else "on"
        if sample["arm"] == arm and (start_s <= from_s <= end_s if killed else inside):
            yield f"{sample['key']} was accepted, {seen.fault.name} within it"


def same_set(seen: Observed) -> Iterator[str]:
    """The run that was asked is complete, in the folder and with the seed that it began with."""
    if seen.fault.says:
        return
    if len(seen.runs) != 1:
        yield f"runs {', '.join(seen.runs) or 'none'}, must be one"
    if not set(seen.runs_before) <= set(seen.runs):
        yield f"runs {seen.runs_before} were there before"
    before, header = seen.header_before, seen.header
    if header is None or header["finished_s"] is None:
        yield "the run is not finished"
    elif before and any(before[key] != header[key] for key in ("digest", "seed", "asked")):
        yield "digest, seed or what was asked changed"
    complete = _complete_pairs(seen.samples)
    if complete != PAIRS:
        yield f"{complete} complete pairs, {PAIRS} asked"


def bounded(seen: Observed) -> Iterator[str]:
    for ended in seen.nimcs:
        if ended.status is None:
            yield f"did not end within {ended.bound_s:.0f} s"


def documented_exit(seen: Observed) -> Iterator[str]:
    """Exit statuses are those documented for the fault; the last call's is 0.

    A campaign that had all its pairs when a part of it was hit may end with 0.
    """
    done = seen.fault.victim != "nimc" and _complete_pairs(seen.reported) == PAIRS
    if seen.disturbed.status not in {None, *seen.fault.exits, *([0] if done else [])}:
        allowed = ", ".join(map(str, sorted(seen.fault.exits)))
        yield f"exit {seen.disturbed.status}, documented: {allowed}"
    if seen.second and seen.second.status != 2:
        yield f"the second nimc: exit {seen.second.status}, documented: 2"
    if seen.fault.says:
        return
    last = [seen.disturbed, *seen.resumed][-1]
    if last.status != 0:
        yield f"not done after {len(seen.resumed)} resumptions: exit {last.status}"
    yield from (
        f"a resumption: exit {ended.status}, documented: 0, 3"
        for ended in seen.resumed
        if ended.status not in (None, 0, 3)
    )


def clear_words(seen: Observed) -> Iterator[str]:
    """Lines of nimc's own, with one on the failure if it failed; no traceback."""
    for ended in seen.nimcs:
        if ended.status == -signal.SIGINT:
            continue  # Python had not started nimc yet, and says so with a traceback of its own
        lines = [line for line in ended.err.splitlines() if line]
        for line in lines:
            if not line.startswith("nimc: ") or len(line) > _LONGEST_LINE:
                yield f"says {line[:200]!r}"
            if "failed unexpectedly" in line or "Traceback" in line:
                yield f"says {line[:200]!r}"
        reports = [line for line in lines if not line.startswith(("nimc: starts", "nimc: resumes"))]
        killed = ended.status is None or ended.status < 0
        if ended.status != 0 and not killed and not reports:
            yield f"exit {ended.status} without a line"


def planted_is_named(seen: Observed) -> Iterator[str]:
    """Runs with a planted fault are rejected, with words that name it."""
    fault = seen.fault
    if not fault.says:
        return
    if not named(fault, seen.samples) and not re.search(fault.says, seen.disturbed.err):
        yield f"nothing says {fault.says!r}"
    arms = fault.arms.split()
    yield from (f"{run['key']} was accepted" for run in _accepted(seen.samples)
                if run["arm"] in arms)  # fmt: skip


def named(fault: Fault, samples: bytes) -> list[str]:
    """Why runs were rejected, where the words name a planted fault."""
    runs = [json.loads(line) for line in samples.split(b"\n")[:-1]]
    reasons = [f"{run['outcome']}: {run['reason']}" for run in runs if run["outcome"] != "accepted"]
    return [reason for reason in reasons if re.search(fault.says, reason)]


CHECKS: dict[str, Callable[[Observed], Iterator[str]]] = {
    "nothing left": nothing_left,
    "reported samples stay": reported_stays,
    "readable once": readable_once,
    "counted is proven": counted_is_proven,
    "silenced is not counted": silenced_is_not_counted,
    "resumes to the same set": same_set,
    "bounded wait": bounded,
    "documented exit": documented_exit,
    "one clear line": clear_words,
    "planted is named": planted_is_named,
}


def violations(seen: Observed) -> list[str]:
    return [f"{name}: {violation}" for name, check in CHECKS.items() for violation in check(seen)]


def _complete_pairs(samples: bytes) -> int:
    arms: dict[tuple[int, int], set[str]] = {}
    for sample in _accepted(samples):
        arms.setdefault((sample["block"], sample["pair"]), set()).add(sample["arm"])
    return sum(pair_arms == ARMS for pair_arms in arms.values())


def _accepted(samples: bytes) -> Iterator[dict[str, Any]]:
    """Samples that count. Lines that are none are `readable_once`'s matter."""
    for line in samples.split(b"\n")[:-1]:
        try:
            sample = json.loads(line)
        except ValueError:
            continue
        if sample["outcome"] == "accepted" and not sample["warmup"]:
            yield sample
