"""Makes 200 runs of all kinds by random numbers. Nothing here was measured.

The number of a run is the seed of its random numbers. Figures of merit and rates are drawn by
Python's own generator, with the key of their sample as seed. So they depend neither on the order in
which samples are made, nor on how a run is written.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path
from random import Random
from typing import Any, get_args

from records.sample import Better, Outcome, Sample, WriterRecord
from tests.analysis import synthetic
from tests.analysis.synthetic import HOST, STARTED_S, Case

#: Number of made runs. Each has many samples, which are runs of an application.
RUNS = 200
#: Share of application runs that were rejected once, and of those that were rejected in all
#: attempts.
_REPEATED, _GIVEN_UP = 0.04, 0.02
#: Shares of application runs that are slow.
_SPIKES = [0.05, 0.3]
_ATTEMPTS = 3
#: Every 50th made run is long enough for an interval of the mean.
_LONG_EVERY = 50
_FAILURES: list[Outcome] = [word for word in get_args(Outcome) if word != "accepted"]
#: Possible arms of a case. Levels of factors follow the `@`.
_ARMS = (
    ["on", "aa"],
    ["on", "spin", "aa"],
    ["on", "spin", "aa"],
    ["on"],
    ["daly", "aa"],
    ["on", "constant", "daly", "aa"],
    ["on", "on@rate=50%", "on@rate=25%", "aa"],
    ["on", "aa", "off@cores=1", "on@cores=1", "aa@cores=1"],
    ["on", "spin", "aa", "off@cores=1", "on@cores=1", "spin@cores=1"],
    ["on", "on@rate=25%", "off@cores=1", "on@cores=1", "on@rate=25%,cores=1", "aa"],
)
_UNITS: list[tuple[str, Better, float]] = [
    ("s", "lower", 8.4),
    ("B/s", "higher", 14.2e9),
    ("1/s", "higher", 3.1e6),
]
#: Possible transports, each with the origin of the writes.
_PATHS = [("shared memory", HOST), ("InfiniBand", "synthetic-1"), ("soft-RoCE", "synthetic-1")]
#: Possible true slowdowns of arms with writers.
_SLOWDOWNS = (0.9, 1.0, 1.0, 1.004, 1.03, 1.1, 1.3, 2.2)
#: Fields of a writer whose writes are proven, and facts of a host whose caches are smaller than a
#: write. Made runs with an even number have these facts, and proven writes between hosts.
_PROVEN = {"proof": "memory", "overwritten_share": 1.0}
_SMALL_CACHE = {"nodes": {HOST: {"llc_total_b": 32 << 10}}}


@dataclass(frozen=True, kw_only=True)
class DrawnCase:
    """A case that was drawn at random, and how its application runs vary.

    `spikes`, `repeated` and `given_up` are shares of application runs: those that are slow, that
    are rejected once, and that are rejected in all attempts.
    """

    case: Case
    blocks: int
    pairs: int
    spikes: float
    repeated: float
    given_up: float


def made_run(folder: Path, number: int) -> Path:
    """Write made run `number` to a folder in `folder`; return the folder of the run."""
    random = Random(f"golden run {number}")
    cases = [_case(random, name) for name in "ab"[: random.choice([1] * 9 + [2])]]
    if number % _LONG_EVERY == 0:
        cases = [_long_case(spikes=0.2 * (number // _LONG_EVERY % 2))]
    samples: list[Sample] = []
    for drawn in cases:
        begin_s = samples[-1].start_s + samples[-1].elapsed_s + 60 if samples else STARTED_S
        samples += _samples(drawn, number, begin_s)
    head = synthetic.header(
        run=f"golden-{number}",
        margin=random.choice([0.02, 0.05, 0.1, 0.25]),
        precision=random.choice([None, None, 0.01]),
        facts={"synthetic": True, "site": _site(random, cases)},
    )
    record = None if number % 2 else _SMALL_CACHE
    return synthetic.write_run(folder / f"golden-{number}", samples, head, record)


def _site(random: Random, cases: list[DrawnCase]) -> dict[str, Any]:
    """Draw the machine.

    With a probability of one in four, it has a reference for each case: a value near the baseline.
    """
    if random.random() < 0.75:
        return {"name": "synthetic machine"}
    references = {
        drawn.case.name: drawn.case.base * random.choice([0.9, 1.0, 1.1]) for drawn in cases
    }
    return {"name": "synthetic machine", "references": references, "reference_tolerance": 0.05}


def _case(random: Random, name: str) -> DrawnCase:
    unit, better, base = random.choice(_UNITS)
    transport, origin = random.choice(_PATHS)
    arms = random.choice(_ARMS)
    if origin != HOST:
        arms = [arm for arm in arms if not arm.startswith("spin")]
    effects = {arm: _true_effect(random, arm) for arm in arms}
    case = Case(
        name=name, unit=unit, better=better, base=base, effects=effects,
        transport=transport, origin=origin,
        noise=random.choice([0.001, 0.01, 0.03]), block_noise=random.choice([0.0, 0.02]),
        pair_noise=random.choice([0.0, 0.05]),
    )  # fmt: skip
    levels = {part.partition("=")[0] for arm in arms for part in arm.partition("@")[2].split(",")}
    if levels != {""}:
        application = {"cores": 0} if "cores" in levels else {}
        case = synthetic.crossed(case, application, {"rate": "full"} if "rate" in levels else {})
    troubled = random.random() < 0.4
    return DrawnCase(
        case=case,
        blocks=random.choice([1, 1, 1, 2, 3]),
        pairs=random.choice([4, 6, 6, 8, 10, 40 if len(arms) < 3 else 6]),
        spikes=random.choice([0.0, 0.0, *_SPIKES]),
        repeated=_REPEATED if troubled else 0.0,
        given_up=_GIVEN_UP if troubled else 0.0,
    )


def _long_case(spikes: float) -> DrawnCase:
    """Return a case without an effect on the typical run; a share `spikes` of runs is slow."""
    case = Case(
        name="a", unit="s", better="lower", base=8.4, effects={"on": 1.0, "aa": 1.0}, noise=0.001
    )
    return DrawnCase(case=case, blocks=1, pairs=150, spikes=spikes, repeated=0.0, given_up=0.0)


def _true_effect(random: Random, arm: str) -> float:
    """Draw the true relative time of an arm.

    This is the time at the arm's levels of factors, divided by the time of the arm `off` without
    levels.
    """
    price = 1.06 if "cores" in arm else 1.0
    if arm.startswith(("off", "aa")):
        return price * random.choice([1.0] * 9 + [1.03])
    return price * random.choice(_SLOWDOWNS)


def _samples(drawn: DrawnCase, number: int, begin_s: float) -> Iterator[Sample]:
    """Yield the samples of a case; the first starts at `begin_s`, the others follow one by one."""
    case, clock_s = drawn.case, begin_s
    for planned in synthetic.samples(case, blocks=drawn.blocks, pairs=drawn.pairs):
        random = Random(f"golden {number} {planned.key}")
        outcomes = _outcomes(random, drawn) if not planned.warmup else ["accepted"]
        for attempt, outcome in enumerate(outcomes):
            time = _time(drawn, planned, number, random)
            elapsed_s = 6.0 * time
            fom = case.base * time if case.better == "lower" else case.base / time
            sample = replace(
                planned,
                key=f"{planned.key.rpartition('/')[0]}/{attempt}",
                attempt=attempt,
                start_s=clock_s,
                elapsed_s=elapsed_s,
                fom=fom,
                writers=[_writer(writer, elapsed_s, random, number) for writer in planned.writers],
            )
            if outcome != "accepted":
                sample = synthetic.reject(sample, outcome, f"made: {outcome}")
            yield sample
            clock_s += elapsed_s + 1.0


def _outcomes(random: Random, drawn: DrawnCase) -> list[Outcome]:
    """Draw the outcomes of the attempts of an application run."""
    luck = random.random()
    if luck < drawn.given_up:
        return [random.choice(_FAILURES) for _ in range(_ATTEMPTS)]
    return ["rejected", "accepted"] if luck < drawn.given_up + drawn.repeated else ["accepted"]


def _time(drawn: DrawnCase, planned: Sample, number: int, random: Random) -> float:
    """Draw the relative time of an application run: its time divided by the case's base time.

    The time depends on block, pair and arm, and varies between runs.
    """
    case = drawn.case
    block = Random(f"golden {number} {case.name} {planned.block}").gauss(0, case.block_noise)
    pair = Random(f"golden {number} {case.name} {planned.block} {planned.pair}")
    time = case.effects.get(planned.arm, 1.0) * exp(pair.gauss(0, case.pair_noise))
    time *= exp(random.gauss(0, case.noise)) * (exp(block) if planned.role == "effect" else 1)
    is_slow = planned.role == "effect" and random.random() < drawn.spikes
    return time * (random.uniform(1.3, 3.0) if is_slow else 1.0)


def _writer(writer: WriterRecord, elapsed_s: float, random: Random, number: int) -> WriterRecord:
    """Return the writer's record with a random rate; the rate of a control is 0."""
    rate_b_s = writer.rate_alone_b_s * random.uniform(0.93, 0.99)
    proven: dict[str, Any] = _PROVEN if writer.proof == "unproven" and not number % 2 else {}
    return replace(
        writer,
        **proven,
        rate_b_s=rate_b_s,
        rate_min_b_s=0.97 * rate_b_s,
        bytes_b=rate_b_s * elapsed_s,
    )
