"""The checks after a fault.

Each check is a pure function of an observation, and yields a text for each violation.
"""

import json
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.faults.table import Fault

# Properties of the small campaign (`host.TINY`).
PAIRS = 6
ARMS = {"off", "on"}
#: Least rate of a writer for which a run is accepted, as a share of the uncontended rate.
MIN_SHARE = 0.05
#: Longest line that nimc may print, characters.
_LONGEST_LINE = 1000


@dataclass(frozen=True)
class NimcEnd:
    """How a call of nimc ended."""

    #: Exit status; None if it was killed after `bound_s`.
    status: int | None
    err: str
    #: The longest time that it may take to end, seconds.
    bound_s: float
    #: Processes, Slurm jobs and locks that still existed a while after its end.
    leftovers: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What was observed of a campaign that a fault disturbed.

    After a single fault, the campaign was resumed until it was complete.
    """

    fault: Fault
    #: When the fault began and ended, Unix time, seconds. None if these times cannot be compared
    #: with those of the samples, which then come from another clock.
    fault_times_s: tuple[float, float] | None
    disturbed: NimcEnd
    #: How each call of nimc ended that resumed the campaign.
    resumed: list[NimcEnd]
    #: Names of the campaign runs before the fault, and in the end.
    runs_before: list[str]
    runs: list[str]
    #: Lines of samples that were complete when the fault began; all complete lines in the end.
    samples_before: bytes
    samples: bytes
    #: Content of `run.json` when the fault began (None if it did not exist yet), and in the end.
    header_before: dict[str, Any] | None
    header: dict[str, Any] | None
    #: Temporary files, and incomplete files of the campaign run, that exist in the end.
    files: list[str]
    #: How a second nimc ended that was started during the campaign.
    second: NimcEnd | None = None

    @property
    def nimcs(self) -> list[NimcEnd]:
        return [self.disturbed, *self.resumed, *([self.second] if self.second else [])]


def nothing_left(observation: Observation) -> Iterator[str]:
    for ended in observation.nimcs:
        yield from ended.leftovers
    yield from observation.files


def reported_stays(observation: Observation) -> Iterator[str]:
    """Every sample that was written before the fault is unchanged in the end, byte for byte."""
    if not observation.samples.startswith(observation.samples_before):
        count = observation.samples_before.count(b"\n")
        yield f"{count} samples at the fault are not the file's first in the end"
    if observation.samples and not observation.samples.endswith(b"\n"):
        yield "the last line is incomplete"


def readable_once(observation: Observation) -> Iterator[str]:
    """Every line of samples is a JSON document with a key, and no key occurs twice."""
    keys: Counter[str] = Counter()
    for number, line in enumerate(observation.samples.split(b"\n")[:-1], 1):
        try:
            keys[json.loads(line)["key"]] += 1
        except (ValueError, KeyError, TypeError) as error:
            yield f"line {number}: {error}"
    yield from (f"{key} occurs {times} times" for key, times in keys.items() if times > 1)


def counted_is_proven(observation: Observation) -> Iterator[str]:
    """An accepted `on` run has one writer, whose writes are proven and whose rate is sufficient.

    An accepted `off` run has no writer.
    """
    for sample in _accepted(observation.samples):
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


def silenced_is_not_counted(observation: Observation) -> Iterator[str]:
    """No `on` run is accepted during which a writer was killed or stopped.

    No `off` run is accepted during which a held writer was made to continue.
    """
    if (
        not (observation.fault.silences or observation.fault.wakes)
        or observation.fault_times_s is None
    ):
        return
    from_s, to_s = observation.fault_times_s
    killed = observation.fault.action != "stop"
    for sample in _accepted(observation.samples):
        start_s, end_s = sample["start_s"], sample["start_s"] + sample["elapsed_s"]
        inside = from_s <= start_s and end_s <= to_s
        arm = "off" if observation.fault.wakes else "on"
        if sample["arm"] == arm and (start_s <= from_s <= end_s if killed else inside):
            yield f"{sample['key']} was accepted, {observation.fault.name} within it"


def same_set(observation: Observation) -> Iterator[str]:
    """There is one campaign run, which is complete and has the folder and seed of its start."""
    if observation.fault.reason:
        return
    if len(observation.runs) != 1:
        yield f"runs {', '.join(observation.runs) or 'none'}, must be one"
    if not set(observation.runs_before) <= set(observation.runs):
        yield f"runs {observation.runs_before} were there before"
    before, header = observation.header_before, observation.header
    if header is None or header["finished_s"] is None:
        yield "the run is not finished"
    elif before and any(before[key] != header[key] for key in ("digest", "seed", "asked")):
        yield "digest, seed or what was asked changed"
    complete = _complete_pairs(observation.samples)
    if complete != PAIRS:
        yield f"{complete} complete pairs, {PAIRS} asked"


def bounded(observation: Observation) -> Iterator[str]:
    for ended in observation.nimcs:
        if ended.status is None:
            yield f"did not end within {ended.bound_s:.0f} s"


def documented_exit(observation: Observation) -> Iterator[str]:
    """Exit statuses are those that are documented for the fault; that of the last call is 0.

    If the campaign had all its pairs before the fault, the disturbed nimc may also end with 0.
    """
    done = (
        observation.fault.victim != "nimc" and _complete_pairs(observation.samples_before) == PAIRS
    )
    if observation.disturbed.status not in {None, *observation.fault.exits, *([0] if done else [])}:
        allowed = ", ".join(map(str, sorted(observation.fault.exits)))
        yield f"exit {observation.disturbed.status}, documented: {allowed}"
    if observation.second and observation.second.status != 2:
        yield f"the second nimc: exit {observation.second.status}, documented: 2"
    if observation.fault.reason:
        return
    last = [observation.disturbed, *observation.resumed][-1]
    if last.status != 0:
        yield f"not done after {len(observation.resumed)} resumptions: exit {last.status}"
    yield from (
        f"a resumption: exit {ended.status}, documented: 0, 3"
        for ended in observation.resumed
        if ended.status not in (None, 0, 3)
    )


def clear_words(observation: Observation) -> Iterator[str]:
    """nimc prints only lines that begin with `nimc: `, and no traceback.

    If it failed, one of the lines is about the failure.
    """
    for ended in observation.nimcs:
        if ended.status == -signal.SIGINT:
            continue  # Python may have printed a traceback, since it had not started nimc yet
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


def planted_is_named(observation: Observation) -> Iterator[str]:
    """Runs with a planted fault are rejected, and the reason or nimc's message names the fault."""
    fault = observation.fault
    if not fault.reason:
        return
    if not reasons_naming(fault, observation.samples) and not re.search(
        fault.reason, observation.disturbed.err
    ):
        yield f"nothing says {fault.reason!r}"
    arms = fault.arms.split()
    yield from (f"{run['key']} was accepted" for run in _accepted(observation.samples)
                if run["arm"] in arms)  # fmt: skip


def reasons_naming(fault: Fault, samples: bytes) -> list[str]:
    """Return the reasons of rejected runs that name a planted fault."""
    runs = [json.loads(line) for line in samples.split(b"\n")[:-1]]
    reasons = [f"{run['outcome']}: {run['reason']}" for run in runs if run["outcome"] != "accepted"]
    return [reason for reason in reasons if re.search(fault.reason, reason)]


CHECKS: dict[str, Callable[[Observation], Iterator[str]]] = {
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


def violations(observation: Observation) -> list[str]:
    return [
        f"{name}: {violation}" for name, check in CHECKS.items() for violation in check(observation)
    ]


def _complete_pairs(samples: bytes) -> int:
    arms: dict[tuple[int, int], set[str]] = {}
    for sample in _accepted(samples):
        arms.setdefault((sample["block"], sample["pair"]), set()).add(sample["arm"])
    return sum(pair_arms == ARMS for pair_arms in arms.values())


def _accepted(samples: bytes) -> Iterator[dict[str, Any]]:
    """Yield accepted samples without warm-ups.

    Lines that are no JSON are skipped here; `readable_once` reports them.
    """
    for line in samples.split(b"\n")[:-1]:
        try:
            sample = json.loads(line)
        except ValueError:
            continue
        if sample["outcome"] == "accepted" and not sample["warmup"]:
            yield sample
