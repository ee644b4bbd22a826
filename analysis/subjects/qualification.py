"""What may be claimed of a machine, from a run of the campaign `qualify` (docs/qualify.md).

Each row of `CLAIMS` is judged by what the run's records hold. What was not measured is not shown,
and never allowed; emulated writes allow no claim on hardware.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any, Literal, get_args

import polars as pl
from pydantic import BaseModel

from analysis.effects.facts import QUALIFY, holds_for
from analysis.effects.verdict import emulated, emulations
from analysis.questions.question import INCONCLUSIVE, answer
from analysis.report.data import RunData, UnfinishedBlock
from analysis.report.sections import Section
from analysis.samples.columns import read_run
from analysis.samples.pairs import judged, level
from analysis.statistics.interval import bracketed, median_interval
from analysis.subjects.processing import PROCESSOR_TIME
from nimc.base.json_limits import validated
from nimc.base.units import plural, quantity
from nimc.machine import devices
from nimc.machine.devices import Device
from nimc.machine.host import Interface
from nimc.machine.site import InjectorName
from nimc.records.plan import Demand
from nimc.records.sample import PROVEN_SHARE, Direction

#: Smallest effect of interest, and largest difference of a count from what was written.
_MARGIN = 0.02
#: What a device may count beyond that: headers, and other traffic.
_HEADERS = 0.1
#: Up to which difference something is allowed, and allowed with a caveat: a run's count, to those
#: of other runs; a rate, to what was asked; clocks, seconds.
_EVEN = (0.05, 0.2)
_LIMITED = (0.05, 0.15)
_CLOCKS_S = (0.1, 1.0)
#: How far a link may be from the data sheet, and the share of it that writers should reach.
_LINK, _REACHED = 0.05, 0.8
#: Share of runs that may be disturbed; below it a counter counts nothing, and marks stay.
_SOME = 0.1
#: Reasons of runs in which a writer was not held or released as it should be.
_UNHELD = re.compile(r"writer \d+ (started|stopped|reported nothing|wrote nothing)")

#: Injectors, each of which has a case of its own; all other cases are written by the machine's.
_INJECTORS: tuple[str, ...] = get_args(InjectorName)

State = Literal["allowed", "caveat", "refused", "not shown"]
ALLOWED: State = "allowed"
CAVEAT: State = "caveat"
REFUSED: State = "refused"
NOT_SHOWN: State = "not shown"
#: What a claim is judged to be, and why.
Judged = tuple[State, str]


@dataclass(frozen=True)
class Judgement:
    """One claim, and whether it may be made."""

    #: Its short name, and what may be claimed if it is allowed.
    name: str
    claim: str
    #: `allowed`, `caveat` (allowed with it), `refused` or `not shown`; and why, in one line.
    state: State
    reason: str
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


class SitePart(BaseModel):
    """`nic`, `facts`, or one of `rails` of the machine's file: what of it is compared."""

    device: str = ""
    link_rate_b_s: float | None = None
    nic_node: int | None = None
    numa_node: int | None = None


class SiteClaims(BaseModel):
    """What the machine's file (`nimc.machine.site`) says of devices."""

    device: str | None = None
    nic: SitePart | None = None
    facts: SitePart | None = None
    rails: list[SitePart] = []

    @property
    def nodes_of(self) -> dict[str, int | None]:
        """The writers' devices -> their NUMA nodes."""
        own = {self.device: self.facts.nic_node if self.facts else None} if self.device else {}
        return own | {rail.device: rail.numa_node for rail in self.rails}

    @property
    def link_b_s(self) -> float | None:
        """Rate of the link, by the data sheet."""
        return self.nic.link_rate_b_s if self.nic else None


class NodeFacts(BaseModel):
    """What a block recorded of a node."""

    rdma: list[Device] = []
    interfaces: list[Interface] = []
    numa_nodes: list[dict[str, Any]] = []


class BlockFacts(BaseModel):
    """What is judged of a record of provenance."""

    nodes: dict[str, NodeFacts] = {}
    clock_offsets_s: dict[str, float] = {}


@dataclass(frozen=True)
class Evidence:
    """What the claims are judged by."""

    run: RunData
    site: SiteClaims
    nodes: Mapping[str, NodeFacts]
    offsets_s: Mapping[str, float]
    #: The samples but warm-ups (`judged`); of those that ended the writers that write, and the
    #: conditions, with `key`, `case`, `role`, `rate` and `elapsed_s` of the sample.
    runs: pl.DataFrame
    writers: pl.DataFrame
    conditions: pl.DataFrame
    #: Blocks that ended early.
    unfinished: Sequence[UnfinishedBlock] = ()

    def of(self, injector: str) -> Evidence:
        """The case of one injector; without a name all other cases."""
        case = pl.col("case")
        own = case == injector if injector else ~case.is_in(_INJECTORS)
        frames = {name: getattr(self, name) for name in ("runs", "writers", "conditions")}
        kept = {name: frame.filter(own) for name, frame in frames.items()}
        unfinished = [
            each
            for each in self.unfinished
            if (each.case == injector if injector else each.case not in _INJECTORS)
        ]
        return replace(self, **kept, unfinished=unfinished)

    @property
    def why_none(self) -> str:
        """Why there is no run, as far as is known."""
        ended = (f"no run: {each.outcome}: {each.reason}" for each in self.unfinished)
        return next(ended, "no run: not installed, or it failed")

    @property
    def emulated(self) -> list[str]:
        """Caveats of the transports of its writers and of the devices; empty for hardware."""
        of_nodes = [devices.named(name, node.rdma) for name in self.site.nodes_of
                    for node in self.nodes.values()]  # fmt: skip
        kinds = emulations([each.transport for each in of_nodes if each])
        return list(dict.fromkeys([*emulated(self.runs), *kinds]))


def evidence_of(run: RunData) -> Evidence:
    """What a run holds. Raises InputError for records that cannot be judged."""
    site = run.header.facts.get("site") or {}
    blocks = [
        validated(BlockFacts, record, run.path / "provenance" / f"{sha}.json")
        for sha, record in run.provenance.items()
    ]
    read = read_run(run.path)
    runs = judged(read.frame.with_row_index("row")).filter(~pl.col("warmup"))
    levels = [level(name).alias(name) for name in ("rate", "load", "buffer")]
    runs = runs.with_columns(pl.col("case", "role", "outcome").cast(pl.String), *levels)
    ended = pl.col("outcome").is_in(["kept", "rejected"])
    own = runs.filter(ended).select("row", "key", "case", "role", "rate", "elapsed_s")
    return Evidence(
        run=run,
        site=validated(SiteClaims, site, run.path / "run.json", "facts", "site"),
        nodes={name: node for block in blocks for name, node in block.nodes.items()},
        offsets_s={name: s for block in blocks for name, s in block.clock_offsets_s.items()},
        runs=runs,
        writers=read.writers.filter(pl.col("message_b") > 0).join(own, on="row"),
        conditions=read.conditions.join(own, on="row"),
        unfinished=run.unfinished_blocks,
    )


def _graded(away: float, limits: tuple[float, float]) -> State:
    return ALLOWED if away <= limits[0] else CAVEAT if away <= limits[1] else REFUSED


def _few(count: int, of: int) -> State:
    return ALLOWED if not count else CAVEAT if count <= _SOME * of else REFUSED


# Devices, counters, writers.


def _devices(seen: Evidence) -> Judged:
    wanted, link_b_s = seen.site.nodes_of, seen.site.link_b_s
    if not wanted or not seen.nodes:
        return NOT_SHOWN, "no facts of nodes" if wanted else "the machine's file names no device"
    unknown = False
    for host, node in seen.nodes.items():
        rates = {each.name: each.rate_b_s for each in node.interfaces}
        for name in wanted:
            device = devices.named(name, node.rdma)
            if device is None and name not in rates:
                names = [*(each.name for each in node.rdma), *rates]
                return REFUSED, f"{host} has no {name}: {', '.join(names) or 'none'}"
            if port := device and device.port(devices.split(name).port):
                rates[name] = port.rate_b_s
                if port.state not in ("ACTIVE", "unknown"):
                    return REFUSED, f"{name} of {host} is {port.state}"
            rate_b_s = rates.get(name)
            if not rate_b_s or not link_b_s:
                unknown = True
            elif abs(rate_b_s / link_b_s - 1) > _LINK:
                found, said = (f"{each * 8e-9:g} Gbit/s" for each in (rate_b_s, link_b_s))
                return REFUSED, f"{name} of {host} has {found}, by the machine's file {said}"
    there = f"{', '.join(wanted)} on {plural(len(seen.nodes), 'node')}"
    return (CAVEAT, f"{there}; its link is unknown") if unknown else (ALLOWED, there)


def _counter(seen: Evidence, direction: Direction) -> Judged:
    """Targets' devices count what writers write, in the unit believed, in every run.

    What they wrote while no row covered it is unknown, from nothing to all; and rows that are made
    of the origin's device counter show nothing of counters.
    """
    writers = seen.writers.filter(pl.col("direction") == direction)
    absent = writers["counted_b"].null_count()
    if absent and (absent < writers.height or seen.site.nodes_of):
        of = f"{absent} of {plural(writers.height, 'run')}"
        return REFUSED, f"no count in {of}: no counter, or it stopped, wrapped or was set back"
    own = pl.col("limited_by").is_null() | (pl.col("limited_by") == "agent")
    least_b, most_b = pl.col("bytes_b"), pl.col("bytes_b") / pl.col("observed_share")
    counted_b, counted_s = pl.col("counted_b").first(), pl.col("counted_s").first()
    elapsed_s = pl.col("elapsed_s").first()
    # Just before and after the run, which is counted too, writers write at any of these rates.
    rates = ("rate_b_s", "rate_min_b_s", "rate_before_b_s", "rate_alone_b_s")
    slowest_b_s, fastest_b_s = pl.min_horizontal(rates).sum(), pl.max_horizontal(rates).sum()
    runs = (
        writers.filter(own, ~pl.col("injector").str.starts_with("fabtests"), least_b > 0)
        .group_by("key", "target", maintain_order=True)
        .agg(
            share=counted_b * elapsed_s / counted_s / least_b.sum(),
            covered=least_b.sum() / most_b.sum(),
            least=(counted_b - fastest_b_s * (counted_s - elapsed_s)) / most_b.sum(),
            most=(counted_b - slowest_b_s * (counted_s - elapsed_s)) / least_b.sum(),
        )
        .drop_nulls()
    )
    if runs.is_empty():
        return NOT_SHOWN, "no device counted what writers' own rows report"
    each = runs.select("share", "covered").iter_rows()
    shares = [share if share < 1 else max(share * covered, 1.0) for share, covered in each]
    share, least, most = (median(each) for each in (shares, runs["least"], runs["most"]))
    found = f"{share:.4g} of what was written, median of {plural(len(shares), 'run')}"
    if share < _SOME:
        return REFUSED, f"{found}: the counter is dead, or of another port"
    if most < 1 - _MARGIN or least > 1 + _HEADERS:
        return REFUSED, f"{found}: it is in another unit, or of another port"
    if abs(share - 1) > _MARGIN:
        return CAVEAT, f"{found}: with headers, other traffic, or what passed outside the runs"
    covered = min(runs["covered"])
    away, key = max(zip((abs(each / share - 1) for each in shares), runs["key"], strict=True))
    if away <= _EVEN[0] and covered < 1 - _MARGIN:
        return CAVEAT, f"{found}; rows cover only {covered:.0%} of the time"
    return _graded(away, _EVEN), f"{found}; {away:.1%} from it at most ({key})"


def _reached(seen: Evidence) -> Judged:
    full = seen.writers.filter(pl.col("asked_b_s").is_null(), pl.col("direction") == "write")
    if not seen.site.link_b_s or full.is_empty():
        return NOT_SHOWN, "no write at full rate, or no `nic.link_rate` to compare it with"
    rate_b_s = median(full["rate_alone_b_s"].to_list())
    share = rate_b_s / seen.site.link_b_s
    found = f"{quantity(rate_b_s, 'B/s', 3)} alone, {share:.0%} of the link"
    if share > 1 + _MARGIN:
        return REFUSED, f"{found}: more than it carries"
    return (ALLOWED if share >= _REACHED else CAVEAT), found


def _limited(seen: Evidence) -> Judged:
    """A limited writer writes at the rate that was asked; before the application, if known."""
    rate_b_s = pl.col("rate_before_b_s").fill_null(pl.col("rate_alone_b_s"))
    asked = seen.writers.filter(pl.col("asked_b_s") > 0)
    found = asked.group_by("rate", "direction", maintain_order=True).agg(
        (rate_b_s / pl.col("asked_b_s")).median(), pl.col("limited_by").first()
    )
    if found.is_empty():
        return NOT_SHOWN, "no run at a rate below full"
    rate, direction, share, by = max(found.iter_rows(), key=lambda each: abs(each[2] - 1))
    state = _graded(abs(share - 1), _LIMITED)
    reason = f"{share:.1%} of what was asked at {rate} ({direction}), limited by {by}"
    if by == "agent" and state == ALLOWED:
        return CAVEAT, f"{reason}, in bursts and pauses"
    return state, reason


def _held(seen: Evidence) -> Judged:
    asked = seen.runs.filter(role="effect").select("outcome", pl.col("reason").fill_null(""))
    if asked.is_empty():
        failed = [each for each in seen.unfinished if each.outcome.startswith("injector_")]
        return (REFUSED, failed[0].reason) if failed else (NOT_SHOWN, "no run with writers")
    lost = Counter(
        reason or outcome
        for outcome, reason in asked.iter_rows()
        if outcome.startswith("injector_") or _UNHELD.match(reason)
    )
    found = f"{plural(asked.height, 'run')} with writers"
    if lost:
        state = _few(lost.total(), asked.height)
        return state, f"{lost.total()} of {found} failed: {lost.most_common(1)[0][0]}"
    if not seen.conditions["received_b_s"].count():
        return CAVEAT, f"{found}; no device shows that they are silent in between"
    return ALLOWED, found


def _memory(seen: Evidence) -> Judged:
    shares = seen.writers["overwritten_share"].drop_nulls().to_list()
    if not shares:
        return NOT_SHOWN, "nothing looked at the target's memory"
    found = f"in each run at least {min(shares):.0%} of the looks found the memory written"
    return _graded(1 - min(shares), (1 - PROVEN_SHARE, 1 - _SOME)), found


def _foreign(seen: Evidence) -> Judged:
    """Nothing else writes; the same reading shows this campaign's writers, and their silence."""
    known = seen.conditions.drop_nulls("received_b_s")
    wrote = seen.writers.filter(direction="write").group_by("row")
    rates = wrote.agg(pl.col("rate_alone_b_s", "rate_b_s").sum())
    if known.is_empty() or rates.is_empty():
        return NOT_SHOWN, "no device counts what arrives"
    most_b_s = (Demand.foreign_share or 0.0) * max(rates["rate_alone_b_s"])
    silent = known.filter(pl.col("role") != "effect")["received_b_s"].to_list()
    foreign = [each for each in silent if each > most_b_s]
    if foreign:
        of = f"{len(foreign)} of {plural(len(silent), 'run')} in which nothing wrote"
        return _few(len(foreign), len(silent)), f"{quantity(max(foreign), 'B/s', 3)} in {of}"
    shown = known.join(rates.filter(pl.col("rate_b_s") > 2 * most_b_s), on="row")["received_b_s"]
    if missed := (shown <= most_b_s).sum():
        return REFUSED, f"its own writers are not seen in {missed} of {plural(len(shown), 'run')}"
    return ALLOWED, f"silent in {plural(len(silent), 'run')}, writers seen in {len(shown)}"


# Memory, nodes, and the records.


def _near(seen: Evidence, load: str, role: str, figure: str) -> Judged:
    """The node called `nic` is nearer than the other one: more bandwidth in the same pair."""
    if all(len(node.numa_nodes) < 2 for node in seen.nodes.values()):
        return NOT_SHOWN, "one NUMA node: nothing can be exchanged"
    near, other = (
        seen.runs.filter(status="counts", role=role, load=load, buffer=place)
        for place in ("nic", "other")
    )
    both = near.join(other, on=["block", "pair"], suffix="_other")
    found = median_interval((both[figure] / both[f"{figure}_other"]).to_list())
    if found is None:
        return NOT_SHOWN, "fewer than six pairs of both nodes"
    reason = f"bandwidth near / far {bracketed(found)}"
    if found.high < 1 and found.value < 1 - _MARGIN:
        return REFUSED, f"{reason}: the nodes are exchanged"
    return (ALLOWED, reason) if found.low > 1 else (NOT_SHOWN, f"{reason}: not told apart")


def _near_device(seen: Evidence) -> Judged:
    """As the kernel says, and by the writers' rate into the memory of both nodes."""
    for host, node in seen.nodes.items():
        for name, said in seen.site.nodes_of.items():
            device = devices.named(name, node.rdma)
            found = device.numa_node if device else None
            if None not in (said, found) and said != found:
                return REFUSED, f"{name} of {host} is on {found} by its kernel, not {said}"
    return _near(seen, "idle", "effect", "writer_rate_b_s")


def _about_one(seen: Evidence, role: str, what: str) -> Judged:
    """What should take no time: the baseline repeated, or the control at another host."""
    known = [each.slowdown for each in seen.run.results if each.role == role and each.slowdown]
    if not known:
        return NOT_SHOWN, "fewer than six pairs"
    of = max(known, key=lambda each: abs(each.value - 1))
    differs = not of.low <= 1 <= of.high
    reason = f"{what} {bracketed(of)}"
    if role == "control" and seen.runs["same_host"].any():
        return CAVEAT, f"{reason} on one host"
    if differs and abs(of.value - 1) > _MARGIN:
        return REFUSED, reason
    if differs or of.half_width > _MARGIN:
        return CAVEAT, f"{reason}: smaller effects are not seen"
    return ALLOWED, reason


def _quiet(seen: Evidence, name: str, limit: float, text: str) -> Judged:
    """A condition of the targets is beyond its limit in few runs, or none."""
    known = seen.conditions.drop_nulls(name)
    if known.is_empty():
        return NOT_SHOWN, "the nodes do not show it"
    value = pl.col(name)
    if name == "frequency_hz":
        value = 1 - value / value.median().over("node")
    found: list[float] = known.select(value.alias(name))[name].to_list()
    beyond = sum(each > limit for each in found)
    limited = f"{text.format(limit)} allowed, more in {beyond} of {plural(len(found), 'run')}"
    return _few(beyond, len(found)), f"{text.format(max(found))} at most; {limited}"


def _clocks(seen: Evidence) -> Judged:
    if len(seen.offsets_s) < 2:
        return NOT_SHOWN, "one host: its clock is compared with no other"
    host, away_s = max(seen.offsets_s.items(), key=lambda each: abs(each[1]))
    return _graded(abs(away_s), _CLOCKS_S), f"{host} is {away_s:+.2g} s from the first node"


def _offload(seen: Evidence) -> Judged:
    rows = [
        row
        for row in answer(PROCESSOR_TIME, seen.run).to_dicts()
        if row["end"] == "target" and row["case"] not in _INJECTORS
    ]
    decided = [row for row in rows if row["word"] != INCONCLUSIVE]
    if not decided:
        return NOT_SHOWN, next((row["why"] for row in rows), "not counted")
    words = ", ".join(sorted({row["word"] for row in decided}))
    claim = decided[0]["claim"]
    if not claim:
        return CAVEAT, f"{words}; the machine's file does not say"
    wrong = any(row["word"] != claim for row in decided)
    return (REFUSED if wrong else ALLOWED), f"{words}; by the machine's file {claim}"


def _records(seen: Evidence) -> Judged:
    faults = seen.run.integrity.lines()
    if faults:
        return REFUSED, " ".join(faults[:2])
    if seen.runs.is_empty():
        return NOT_SHOWN, seen.why_none
    return ALLOWED, plural(seen.runs.height, "run")


def _injector(seen: Evidence) -> Judged:
    """What is judged of the machine's own injector, of another one; the worst counts."""
    proofs = {"counter": _counter(seen, "write"), "memory": _memory(seen)}
    if all(state == NOT_SHOWN for state, _ in proofs.values()):
        if not seen.writers.is_empty():
            return NOT_SHOWN, "no count, no mark"
        held = _held(seen)
        return held if held[0] == REFUSED else (NOT_SHOWN, seen.why_none)
    own = {"rate": _reached(seen), "throttled": _limited(seen), "held": _held(seen)}
    parts = {name: part for name, part in {**proofs, **own}.items() if part[0] != NOT_SHOWN}
    worst = max((state for state, _ in parts.values()), key=(ALLOWED, CAVEAT, REFUSED).index)
    named = (f"{name}: {why}" for name, (state, why) in parts.items() if state == worst)
    return worst, "; ".join(named)


@dataclass(frozen=True)
class Claim:
    """A row of the table: what may be claimed, how it is judged, and what to do if it may not."""

    name: str
    text: str
    judge: Callable[[Evidence], Judged]
    remedy: str
    #: Whether it is of hardware, which no emulation shows.
    hardware: bool = True
    #: The injector whose own case is judged; empty: all other cases.
    injector: str = ""


#: The claim without which nothing else on hardware counts.
_QUALIFIES = "counter of writes"
_IDLE = "take idle nodes, whole ones (--exclusive)"
CLAIMS = (
    Claim("devices", "devices and links are as the machine's file says", _devices,
          "correct `device`, `rails` or `nic` (docs/add-a-machine.md)"),
    Claim(_QUALIFIES, "devices count what is written, within 2 %",
          partial(_counter, direction="write"),
          "correct `device` or `rails`, or report the device: its counter is not known"),
    Claim("counter of reads", "devices count what is read, within 2 %",
          partial(_counter, direction="read"),
          "as for writes, and look at injectors that read (docs/injectors.md)"),
    Claim("full rate", "writers reach the rate of the link", _reached,
          "larger messages, more origins, or the right `nic.link_rate`"),
    Claim("throttled", "limited writers write what was asked", _limited,
          "another `limiter` or injector; name figures by the rate that was reached", False),
    Claim("held", "writers are held between runs, and released", _held,
          "look at the logs of the writers, and at docs/injectors.md", False),
    Claim("memory", "writes arrive in the target's memory", _memory,
          "try `mpi_put`, whose marks in the target's memory are read back"),
    Claim("foreign writer", "nothing else writes; one that does, or stops, would be seen", _foreign,
          "find what else uses the devices of these nodes"),
    Claim("NUMA of device", "`nic` is the NUMA node of the device", _near_device,
          "correct `facts.nic_node`, or `numa_node` of `rails`"),
    Claim("NUMA of cores", "cores are on the NUMA node that they are said to be on",
          partial(_near, load="read", role="baseline", figure="fom"),
          "look at the firmware's NUMA settings, or the virtual machine's map", False),
    Claim("repeats", "off against off repeats", partial(_about_one, role="floor", what="aa / off"),
          _IDLE, False),
    Claim("foreign load", "no other process loads the targets",
          partial(_quiet, name="foreign_cpus", limit=Demand.foreign_cpus or 0.0,
                  text="{:.2f} hardware threads"), _IDLE, False),
    Claim("steal", "no hypervisor takes processor time",
          partial(_quiet, name="steal_share", limit=Demand.steal_share or 0.0, text="{:.1%}"),
          _IDLE, False),
    Claim("frequency", "cores keep their frequency",
          partial(_quiet, name="frequency_hz", limit=Demand.frequency_drop or 0.0,
                  text="{:.1%} below the median"), "set the governor `performance`", False),
    Claim("clocks", "the clocks of the nodes agree", _clocks, "start chronyd or ntpd there", False),
    Claim("control", "a busy process at the origin costs the target nothing",
          partial(_about_one, role="control", what="spin / off"),
          "take origins on other hosts, or compare with the control", False),
    Claim("offload", "the processor's part in receiving is that of `nic.processing`", _offload,
          "correct `nic.processing`, or see docs/injectors.md#offload-or-onload"),
    Claim("records", "the run's records agree with each other", _records, "nimc verify RUN", False),
    *(Claim(name, f"writes by {name} may be compared with those of others", _injector,
            f"nimc doctor --in-job; leave {name} out of campaigns", injector=name)
      for name in _INJECTORS),
)  # fmt: skip


def qualification(run: RunData) -> Qualification:
    """What may be claimed of the machine of a run. Raises InputError as `evidence_of`."""
    seen = evidence_of(run)
    found = []
    for claim in CLAIMS:
        own = seen.of(claim.injector)
        state, reason = claim.judge(own)
        unmeasured = claim.injector and own.runs.is_empty()
        if claim.hardware and own.emulated and not unmeasured:
            state, reason = REFUSED, f"emulated; {reason}"
        remedy = None if state == ALLOWED else claim.remedy
        found.append(Judgement(claim.name, claim.text, state, reason, remedy))
    states = {each.name: each.state for each in found if each.name not in _INJECTORS}
    counted = states[_QUALIFIES] in (ALLOWED, CAVEAT)
    return Qualification(
        machine=run.header.machine,
        run=run.header.run,
        head=run.integrity.head,
        verdict="qualified" if counted and REFUSED not in states.values() else "not qualified",
        holds_for=holds_for(run.provenance.values()),
        emulated=seen.of("").emulated,
        claims=found,
    )


SECTIONS = [
    Section(
        *("run", 5, "qualification"),
        lambda run, _: qualification(run) if run.header.campaign == QUALIFY else None,
        "What may be claimed of this machine",
    )
]
