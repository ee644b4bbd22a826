"""What may be claimed of a machine, from a run of the campaign `qualify` (docs/qualify.md).

Each row of `CLAIMS` has an expression, which says how far the run is from what is claimed, and two
limits for it. What was not measured is not shown, and never allowed; emulated writes allow no claim
on hardware.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

import polars as pl

from analysis.effects.facts import QUALIFY, holds_for
from analysis.effects.verdict import emulated
from analysis.report.data import RunData
from analysis.report.sections import Section
from analysis.samples.columns import read_run
from analysis.samples.pairs import judged, level
from analysis.samples.provenance import mapping
from records.acceptance import AcceptanceLimits
from records.machine.site import InjectorName

#: Injectors, each of which has a case of its own; all other cases are written by the machine's.
_INJECTORS: tuple[str, ...] = get_args(InjectorName)
#: Reasons of runs in which a writer was not held or released as it should be.
_UNHELD = re.compile(r"writer \d+ (started|stopped|reported nothing|wrote nothing)")
#: Share of a writer's rate from which a device shows it; fewest pairs of a ratio.
_SHOWN = AcceptanceLimits.foreign_share or 0.0
_FEWEST_PAIRS = 6

State = Literal["allowed", "caveat", "refused", "not shown"]


@dataclass(frozen=True)
class Judgement:
    """One claim, and whether it may be made."""

    #: Its short name, and what may be claimed if it is allowed.
    name: str
    claim: str
    #: `allowed`, `caveat` (allowed with it), `refused` or `not shown`; and why, in one line.
    state: State
    reason: str
    #: How far the run is from what is claimed; null if that was not measured. The claim is allowed
    #: up to the one limit, and with a caveat up to the other.
    away: float | None
    allowed: float
    caveat: float
    #: What to do about it; null if it is allowed.
    remedy: str | None


@dataclass(frozen=True)
class Qualification:
    """What may be claimed of a machine."""

    #: The machine, the run that was judged, and the head of its chain.
    machine: str
    run: str
    head: str | None
    #: `qualified` if no claim but those of other injectors is refused, and devices count what is
    #: written.
    verdict: Literal["qualified", "not qualified"]
    #: Kernel, firmware and MPI -> their versions on the nodes: it holds for no others.
    holds_for: dict[str, list[str]]
    #: Caveats of the transports of the writers; empty for RDMA hardware.
    emulated: list[str]
    #: One for each claim, in their order.
    claims: list[Judgement]


@dataclass(frozen=True)
class Evidence:
    """What the claims are judged by."""

    run: RunData
    #: Samples but warm-ups (`judged`); the writers that wrote, and the conditions, of those that
    #: ended, with `case`, `role`, `rate` and `elapsed_s` of the sample.
    runs: pl.DataFrame
    writers: pl.DataFrame
    conditions: pl.DataFrame

    def of(self, *cases: str) -> Evidence:
        """Some cases alone; without a name those of no other injector."""
        own = pl.col("case").is_in(cases) if cases else ~pl.col("case").is_in(_INJECTORS)
        frames = {name: getattr(self, name) for name in ("runs", "writers", "conditions")}
        return replace(self, **{name: frame.filter(own) for name, frame in frames.items()})


def evidence_of(run: RunData) -> Evidence:
    """What a run holds."""
    read = read_run(run.path)
    runs = judged(read.frame.with_row_index("row")).filter(~pl.col("warmup"))
    levels = [level(name).alias(name) for name in ("rate", "load", "buffer")]
    runs = runs.with_columns(pl.col("case", "role", "outcome").cast(pl.String), *levels)
    ended = runs.filter(pl.col("outcome").is_in(["kept", "rejected"]))
    own = ended.select("row", "case", "role", "rate", "elapsed_s")
    writers = read.writers.filter(pl.col("message_b") > 0).join(own, on="row")
    return Evidence(run, runs, writers, read.conditions.join(own, on="row"))


# The expressions: how far a run is from what is claimed; None if that was not measured.


def _share(frame: pl.DataFrame, wrong: pl.Expr) -> float | None:
    """Share of the rows for which `wrong` holds; unknown ones are left out."""
    return _float(frame.select(wrong.mean()).item())


def _float(found: Any) -> float | None:
    return None if found is None else float(found)


def _count(seen: Evidence, direction: str) -> float | None:
    """What targets' devices counted against what writers' own rows say, in nine of ten runs.

    Rows that are made of the origin's device counter show nothing of counters. No count is 0, if
    other runs have one.
    """
    rows = seen.writers.filter(
        pl.col("direction") == direction,
        pl.col("limited_by").is_null() | (pl.col("limited_by") == "agent"),
        ~pl.col("injector").str.starts_with("fabtests"),
        pl.col("bytes_b") > 0,
    )
    written_b = (pl.col("bytes_b") / pl.col("observed_share").fill_null(1)).sum()
    counted_b = (pl.col("counted_b") * pl.col("elapsed_s") / pl.col("counted_s")).first()
    runs = rows.group_by("row", "target").agg(share=counted_b.fill_null(0) / written_b)
    return _float((runs["share"] - 1).abs().quantile(0.9)) if rows["counted_b"].count() else None


def _full_rate(seen: Evidence) -> float | None:
    """What is missing to the link's rate; more than it carries is as far off."""
    link_b_s = mapping(mapping(seen.run.header.facts.get("site")).get("nic")).get("link_rate_b_s")
    full = seen.writers.filter(pl.col("asked_b_s").is_null(), pl.col("direction") == "write")
    rate_b_s = _float(full["rate_alone_b_s"].median())
    if not isinstance(link_b_s, int | float) or not link_b_s or rate_b_s is None:
        return None
    share = rate_b_s / link_b_s
    return 1 - share if share <= 1.02 else share


def _limited(seen: Evidence) -> float | None:
    """Of the rate that is furthest from what was asked; before the application, if known."""
    rate_b_s = pl.col("rate_before_b_s").fill_null(pl.col("rate_alone_b_s"))
    asked = seen.writers.filter(pl.col("asked_b_s") > 0).group_by("rate", "direction")
    ratios = asked.agg(ratio=(rate_b_s / pl.col("asked_b_s")).median())["ratio"]
    return _float((ratios - 1).abs().max())


def _unheld(seen: Evidence) -> float | None:
    reason = pl.col("reason").fill_null("")
    failed = pl.col("outcome").str.starts_with("injector_") | reason.str.contains(_UNHELD.pattern)
    return _share(seen.runs.filter(role="effect"), failed)


def _wrongly_seen(seen: Evidence) -> float | None:
    """Runs in which something arrives although nothing writes, or nothing although it does."""
    writing = seen.writers.filter(direction="write").group_by("row")
    rates = writing.agg(pl.col("rate_alone_b_s", "rate_b_s").sum())
    most_b_s = _SHOWN * (_float(rates["rate_alone_b_s"].max()) or 0.0)
    wrote = pl.when(pl.col("rate_b_s") > 2 * most_b_s).then(True)  # else too little to be seen
    writes = pl.when(pl.col("role") != "effect").then(False).otherwise(wrote)
    runs = seen.conditions.join(rates, on="row", how="left")
    return _share(runs, (pl.col("received_b_s") > most_b_s) != writes) if most_b_s else None


def _far(seen: Evidence, load: str, role: str, figure: str) -> float | None:
    """Bandwidth of the memory called far / of the near one, in the same pair."""
    near, other = (
        seen.runs.filter(status="counts", role=role, load=load, buffer=place)
        for place in ("nic", "other")
    )
    both = near.join(other, on=["block", "pair"], suffix="_other")
    ratios = (both[f"{figure}_other"] / both[figure]).drop_nulls()
    return _float(ratios.median()) if len(ratios) >= _FEWEST_PAIRS else None


def _repeated(seen: Evidence) -> float | None:
    rows = [each.slowdown for each in seen.run.results if each.role == "floor" and each.slowdown]
    return max((abs(each.value - 1) for each in rows), default=None)


def _loaded(seen: Evidence, name: str, limit: float | None) -> float | None:
    return _share(seen.conditions, pl.col(name) > (limit or 0.0))


def _slowed_cores(seen: Evidence) -> float | None:
    drop = 1 - pl.col("frequency_hz") / pl.col("frequency_hz").median().over("node")
    return _share(seen.conditions, drop > (AcceptanceLimits.frequency_drop or 0.0))


def _clocks_s(seen: Evidence) -> float | None:
    offsets = [mapping(each.get("clock_offsets_s")) for each in seen.run.provenance.values()]
    known = [s for each in offsets for s in each.values() if isinstance(s, int | float)]
    return max(map(abs, known)) if len(known) > 1 else None


@dataclass(frozen=True)
class Claim:
    """A row of the table: what may be claimed, how far a run is from it, its limits, a remedy."""

    name: str
    text: str
    away: Callable[[Evidence], float | None]
    #: What the figure is, and up to which it is allowed, and allowed with a caveat.
    figure: str
    allowed: float
    caveat: float
    remedy: str
    #: Whether it is of hardware, which no emulation shows; and of each injector by itself, too.
    hardware: bool = True
    each: bool = False


#: The claim without which nothing else on hardware counts.
_QUALIFIES = "counter of writes"
_RUNS, _IDLE = "share of runs", "take idle nodes, whole ones (--exclusive)"
CLAIMS = (
    Claim(_QUALIFIES, "devices count what is written", partial(_count, direction="write"),
          "difference in nine of ten runs", 0.02, 0.12,
          "correct `device` or `rails`, or report the device: its counter is not known", each=True),
    Claim("counter of reads", "devices count what is read", partial(_count, direction="read"),
          "difference in nine of ten runs", 0.02, 0.12, "as for writes (docs/injectors.md)"),
    Claim("full rate", "writers reach the rate of the link", _full_rate,
          "missing share", 0.2, 1.0, "larger messages, more origins, or the right `nic.link_rate`",
          each=True),
    Claim("throttled", "limited writers write what was asked", _limited,
          "difference", 0.05, 0.15, "another `limiter`; name figures by the rate that was reached",
          hardware=False, each=True),
    Claim("held", "writers are held between runs, and released", _unheld, _RUNS, 0, 0.1,
          "look at the logs of the writers, and at docs/injectors.md", hardware=False, each=True),
    Claim("foreign writer", "nothing else writes; one that does would be seen", _wrongly_seen,
          _RUNS, 0, 0.1, "find what else uses the devices of these nodes"),
    Claim("NUMA of device", "`nic` is the NUMA node of the device",
          partial(_far, load="idle", role="effect", figure="writer_rate_b_s"),
          "rate into far / near memory", 0.98, 1.02,
          "correct `facts.nic_node`, or `numa_node` of `rails`"),
    Claim("NUMA of cores", "cores are on the NUMA node that they are said to be on",
          partial(_far, load="read", role="baseline", figure="fom"),
          "bandwidth of far / near memory", 0.98, 1.02,
          "look at the firmware's NUMA settings, or the virtual machine's map", hardware=False),
    Claim("repeats", "off against off repeats", _repeated,
          "slowdown - 1", 0.02, 0.05, _IDLE, hardware=False),
    Claim("foreign load", "no other process loads the targets",
          partial(_loaded, name="foreign_cpus", limit=AcceptanceLimits.foreign_cpus),
          _RUNS, 0, 0.1, _IDLE, hardware=False),
    Claim("steal", "no hypervisor takes processor time",
          partial(_loaded, name="steal_share", limit=AcceptanceLimits.steal_share),
          _RUNS, 0, 0.1, _IDLE, hardware=False),
    Claim("frequency", "cores keep their frequency", _slowed_cores, _RUNS, 0, 0.1,
          "set the governor `performance`", hardware=False),
    Claim("clocks", "the clocks of the nodes agree", _clocks_s, "seconds", 0.1, 1.0,
          "start chronyd or ntpd there", hardware=False),
)  # fmt: skip


def _judgement(claim: Claim, seen: Evidence, injector: str = "") -> Judgement:
    away = claim.away(seen)
    limits = f"allowed {claim.allowed:g}, with a caveat {claim.caveat:g}"
    reason = "not measured" if away is None else f"{claim.figure} {away:.3g}; {limits}"
    state: State = "refused"
    if away is None:
        state = "not shown"
    elif away <= claim.caveat:
        state = "allowed" if away <= claim.allowed else "caveat"
    if claim.hardware and emulated(seen.runs):
        state, reason = "refused", f"emulated; {reason}"
    return Judgement(
        name=f"{injector}: {claim.name}" if injector else claim.name,
        claim=claim.text,
        state=state,
        reason=reason,
        away=away,
        allowed=claim.allowed,
        caveat=claim.caveat,
        remedy=None if state == "allowed" else claim.remedy,
    )


def qualification(run: RunData) -> Qualification:
    """What may be claimed of the machine of a run. Raises InputError for invalid records."""
    seen = evidence_of(run)
    own = seen.of()
    of_machine = [_judgement(claim, own) for claim in CLAIMS]
    there = [name for name in _INJECTORS if not seen.of(name).runs.is_empty()]
    of_injectors = [
        _judgement(claim, seen.of(name), name) for name in there for claim in CLAIMS if claim.each
    ]
    states = {each.name: each.state for each in of_machine}
    counted = states[_QUALIFIES] in ("allowed", "caveat")
    return Qualification(
        machine=run.header.machine,
        run=run.header.run,
        head=run.integrity.head,
        verdict="qualified" if counted and "refused" not in states.values() else "not qualified",
        holds_for=holds_for(run.provenance.values()),
        emulated=emulated(own.runs),
        claims=of_machine + of_injectors,
    )


SECTIONS = [
    Section(
        *("run", 5, "qualification"),
        lambda run, _: qualification(run) if run.header.campaign == QUALIFY else None,
        "What may be claimed of this machine",
    )
]
