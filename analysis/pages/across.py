"""Machines side by side: Tables I and II, figure 1, and slowdowns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from analysis.effects.verdict import Verdict
from analysis.history.alarms import Alarm, WatchedSeries
from analysis.history.nights import latest
from analysis.samples.columns import MOST
from analysis.samples.provenance import mapping
from analysis.subjects.published import paper, triad
from records.text import one_line

#: Bytes per second of the paper's networks: QDR as in the paper, FDR 4x of the InfiniBand standard.
_LINKS_B_S = {"QDR IB": 4e9, "FDR IB": 6.8e9}
#: The workload of Table II and figure 1, and the treatments compared.
_STREAM, _OFF, _ON = "stream", "off", "on"
_NOTHING_SAID = [verdict.value for verdict in Verdict if verdict.is_not_compared]


@dataclass(frozen=True)
class MachineHistory:
    """One machine."""

    machine: str
    #: Its rows of `analysis.history.nights.nights_of`.
    nights: pl.DataFrame
    alarms: list[Alarm] = field(default_factory=list)
    watched: list[WatchedSeries] = field(default_factory=list)
    #: Facts of the header of its latest run; empty if that is gone.
    facts: Mapping[str, Any] = field(default_factory=dict)
    #: Whether writes of its latest runs were emulated.
    emulated: bool = False
    #: Run -> address of its report, from the machine's page.
    reports: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MachineFacts:
    """A line of Table I; what is not known is None or empty."""

    machine: str
    cpu: str
    #: All cores of a node.
    cores: int | None
    memory_b: float | None
    kernel: str
    nic: str
    processing: str
    link_b_s: float | None
    #: Channels of a node's memory, of published ones those of a processor; and what they carry.
    channels: int | None = None
    dram_b_s: float | None = None
    published: bool = False


@dataclass(frozen=True)
class Triad:
    """A line of Table II: STREAM's triad, with its paired slowdown where it is measured."""

    machine: str
    off_b_s: float
    on_b_s: float
    published: bool
    night: str = ""
    slowdown: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: str = ""
    emulated: bool = False


@dataclass(frozen=True)
class CoreRates:
    """A point of figure 1: rate of the network, and the memory's triad per core."""

    machine: str
    network_b_s: float
    memory_core_b_s: float
    published: bool
    emulated: bool


@dataclass(frozen=True)
class Headroom:
    """How much of its memory's bandwidth a machine's triad takes, and what writes cost it."""

    machine: str
    #: Triad without writes / what the channels carry.
    share: float
    #: Slowdown of triad under writes.
    slowdown: float
    published: bool
    emulated: bool


@dataclass(frozen=True)
class MachineSlowdown:
    """The last slowdown of a case on a machine."""

    campaign: str
    case: str
    arm: str
    machine: str
    night: str
    value: float
    low: float
    high: float
    verdict: str
    emulated: bool


@dataclass(frozen=True)
class SideBySide:
    """All that the page over all machines compares; of facts and triads, measured ones first."""

    facts: list[MachineFacts]
    triads: list[Triad]
    rates: list[CoreRates]
    headroom: list[Headroom]
    slowdowns: list[MachineSlowdown]


def side_by_side(histories: Sequence[MachineHistory]) -> SideBySide:
    """The machines, compared with each other and with the published ones."""
    facts = [*map(facts_of, histories), *published_facts()]
    rows = triads(histories)
    return SideBySide(
        facts, rows, core_rates(facts, rows), headroom(facts, rows), slowdowns(histories)
    )


def facts_of(history: MachineHistory) -> MachineFacts:
    """The machine's line of Table I, from the facts of its latest run."""
    host, site = (mapping(history.facts.get(name)) for name in ("host", "site"))
    nic, own, memory = (mapping(site.get(name)) for name in ("nic", "facts", "memory"))
    channels, channel_b_s = (_rate(memory.get(key)) for key in ("channels", "channel_rate_b_s"))
    cores = own.get("cores") or host.get("cores")
    return MachineFacts(
        machine=history.machine,
        cpu=_text(host.get("cpu_model")),
        cores=cores if isinstance(cores, int) and cores > 0 else None,
        memory_b=_rate(own.get("memory_b") or host.get("memory_b")),
        kernel=_text(host.get("kernel")),
        nic=_text(nic.get("model")),
        processing=_text(nic.get("processing")),
        link_b_s=_rate(nic.get("link_rate_b_s")),
        channels=int(channels) if channels else None,
        dram_b_s=channels * channel_b_s if channels and channel_b_s else None,
    )


def published_facts() -> list[MachineFacts]:
    """Table I as published. A machine with `X2` in its name has two of its processors per node."""
    return [
        MachineFacts(
            machine=row["machine"],
            cpu=row["cpu"],
            cores=row["cores"] * (2 if "X2" in row["machine"] else 1),
            memory_b=row["dram_gb"] * 1e9,
            kernel=row["kernel"],
            nic=row["network"],
            processing=row["nic"],
            link_b_s=_LINKS_B_S[row["network"]],
            channels=row["channels"],
            dram_b_s=max(row["dram_gb_s"]) * 1e9,
            published=True,
        )
        for row in paper()["table_1_machines"]
    ]


def triads(histories: Sequence[MachineHistory]) -> list[Triad]:
    """Table II: the last night of STREAM on each machine, then the published lines."""
    measured = [found for each in histories if (found := _triad(each)) is not None]
    published = (Triad(row.machine, row.off * 1e9, row.on * 1e9, published=True) for row in triad())
    return [*measured, *published]


def _triad(history: MachineHistory) -> Triad | None:
    stream = history.nights.filter(pl.col("case") == _STREAM)
    rates = stream.filter(quantity="fom", unit="B/s")
    for run in rates.sort("started_s", descending=True)["run"].unique(maintain_order=True):
        of_run = {row["arm"]: row["value"] for row in rates.filter(run=run).iter_rows(named=True)}
        if _OFF in of_run and _ON in of_run:
            found = stream.filter(run=run, quantity="slowdown", arm=_ON)
            row = found.row(0, named=True) if found.height else {}
            return Triad(
                machine=history.machine,
                off_b_s=of_run[_OFF],
                on_b_s=of_run[_ON],
                published=False,
                night=str(rates.filter(run=run)["night"][0]),
                slowdown=row.get("value"),
                low=row.get("low"),
                high=row.get("high"),
                verdict=row.get("verdict") or "",
                emulated=history.emulated,
            )
    return None


def core_rates(facts: Sequence[MachineFacts], rows: Sequence[Triad]) -> list[CoreRates]:
    """Figure 1: machines whose cores, link and triad are known.

    Of a published machine that was measured at several memory clocks, the fastest.
    """
    found = []
    for each in facts:
        own = [
            row
            for row in rows
            if row.published == each.published
            if row.machine == each.machine
            or (each.published and row.machine.startswith(f"{each.machine}-"))
        ]
        if own and each.cores and each.link_b_s:
            rate = max(row.off_b_s for row in own) / each.cores
            emulated = any(row.emulated for row in own)
            found.append(CoreRates(each.machine, each.link_b_s, rate, each.published, emulated))
    return found


def headroom(facts: Sequence[MachineFacts], rows: Sequence[Triad]) -> list[Headroom]:
    """Machines whose triad and memory are known; published ones at each of their memory clocks."""
    carried = {each.machine: each.dram_b_s for each in facts if not each.published}
    clocks = _published_memory_b_s()
    points = []
    for row in rows:
        dram_b_s = (clocks if row.published else carried).get(row.machine)
        slowdown = row.off_b_s / row.on_b_s if row.published else row.slowdown
        if dram_b_s and slowdown:
            share = row.off_b_s / dram_b_s
            points.append(Headroom(row.machine, share, slowdown, row.published, row.emulated))
    return points


def _published_memory_b_s() -> dict[str, float]:
    """Machine of Table II -> rate of its memory. Table I has one line for a machine's clocks."""
    rates = {}
    for row in paper()["table_1_machines"]:
        machine, rates_gb_s = row["machine"], row["dram_gb_s"]
        if len(rates_gb_s) == 1:
            rates[machine] = rates_gb_s[0] * 1e9
            continue
        for clock, rate_gb_s in zip(row["dram_mhz"], rates_gb_s, strict=True):
            rates[f"{machine}-{clock}"] = rate_gb_s * 1e9
    return rates


def slowdowns(histories: Sequence[MachineHistory]) -> list[MachineSlowdown]:
    """The last slowdown of every case and treatment on every machine, by case.

    Without those of which the verdict says nothing.
    """
    found = []
    for history in histories:
        rows = history.nights.filter(
            pl.col("quantity") == "slowdown",
            pl.all_horizontal(pl.col("value", "low", "high").is_not_null()),
            pl.col("verdict").is_null() | ~pl.col("verdict").is_in(_NOTHING_SAID),
        )
        names = ("campaign", "case", "arm", "machine", "value", "low", "high")
        night, verdict = pl.col("night").cast(pl.String), pl.col("verdict").fill_null("")
        shown = latest(rows).select(*names, night, verdict)
        emulated = history.emulated
        found += [MachineSlowdown(**row, emulated=emulated) for row in shown.iter_rows(named=True)]
    return sorted(found, key=lambda each: (each.campaign, each.case, each.arm, each.value))


def _text(value: Any) -> str:
    return one_line(str(value or ""))


def _rate(value: Any) -> float | None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if number and 0 < value <= MOST else None
