"""Makes the tables that compare machines.

These are Tables I and II and figure 1 of Groves, Grant and Arnold (2016), and tables of headroom
and slowdowns. Rows are dicts, as in `index.json`. Measured machines come first. Unknown values are
None or empty. If `published` is true, the row is from the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from analysis.effects.result import Verdict
from analysis.history.alarms import Alarm, BelowReference, WatchedSeries
from analysis.history.nights import latest_rows
from analysis.samples.columns import MAX_FIGURE
from analysis.samples.provenance import mapping_or_empty
from analysis.subjects.paper import paper, table_1_row, table_2_rows
from records.notes import Note
from records.text import one_line

Row = dict[str, Any]
#: Network of the paper -> its bytes per second. The rate of QDR is from the paper, the rate of
#: FDR 4x from the InfiniBand standard.
_LINK_RATES_B_S = {"QDR IB": 4e9, "FDR IB": 6.8e9}
#: The workload of Table II and figure 1, and the two treatments that are compared.
_STREAM, _OFF, _ON = "stream", "off", "on"
#: Notes on runs of STREAM whose arrays fit, or may fit, into the last-level cache.
_CACHE_NOTES = (Note.STREAM_IN_CACHE, Note.STREAM_SMALL)
_VERDICTS_WITHOUT_STATEMENT = [verdict.value for verdict in Verdict if verdict.allows_no_statement]


@dataclass(frozen=True, kw_only=True)
class MachineHistory:
    """The nights of one machine (runs of repeated campaigns), and what its page says of them."""

    machine: str
    #: The rows of this machine that `analysis.history.nights.nights_of` returns.
    nights: pl.DataFrame
    alarms: list[Alarm] = field(default_factory=list)
    watched: list[WatchedSeries] = field(default_factory=list)
    below_reference: list[BelowReference] = field(default_factory=list)
    #: Facts of the header of its latest run; empty if the run is missing.
    facts: Mapping[str, Any] = field(default_factory=dict)
    #: Its runs whose writes were emulated.
    emulated_runs: frozenset[str] = frozenset()
    #: Its runs whose triad does not show the memory's rate (`runs_in_cache`).
    runs_in_cache: frozenset[str] = frozenset()
    #: Run -> address of its report, relative to the machine's page.
    reports: Mapping[str, str] = field(default_factory=dict)

    @property
    def emulated(self) -> bool:
        """Return whether writes of its latest night were emulated; false before the first night."""
        return not self.nights.is_empty() and self.nights["run"][-1] in self.emulated_runs


def side_by_side(histories: Sequence[MachineHistory]) -> dict[str, list[Row]]:
    """Name -> table, for the page over all machines."""
    machines = [*map(machine_row, histories), *_published_machines()]
    triads = [*filter(None, map(_triad_row, histories)), *_published_triads()]
    return {
        "machines": machines,
        "triad": triads,
        "rates": core_rates(machines, triads),
        "headroom": headroom(machines, triads),
        "slowdowns": slowdowns(histories),
    }


def machine_row(history: MachineHistory) -> Row:
    """The machine's row of Table I, from the facts of its latest run.

    Values are per node. `dram_b_s` is the bandwidth of all memory channels of a node.
    """
    host, site = (mapping_or_empty(history.facts.get(name)) for name in ("host", "site"))
    nic, stated_facts, memory = (
        mapping_or_empty(site.get(name)) for name in ("nic", "facts", "memory")
    )
    channels, channel_b_s = (_positive(memory.get(key)) for key in ("channels", "channel_rate_b_s"))
    cores = stated_facts.get("cores") or host.get("cores")
    return {
        "machine": history.machine,
        "cpu": _text(host.get("cpu_model")),
        "cores": cores if isinstance(cores, int) and cores > 0 else None,
        "memory_b": _positive(stated_facts.get("memory_b") or host.get("memory_b")),
        "kernel": _text(host.get("kernel")),
        "nic": _text(nic.get("model")),
        "processing": _text(nic.get("processing")),
        "link_b_s": _positive(nic.get("link_rate_b_s")),
        "channels": int(channels) if channels else None,
        "dram_b_s": channels * channel_b_s if channels and channel_b_s else None,
        "ganged": memory.get("ganged") if isinstance(memory.get("ganged"), bool) else None,
        "page_policy": _text(memory.get("page_policy")),
        "published": False,
    }


def _published_machines() -> list[Row]:
    """The rows of Table I. A machine with `X2` in its name has two processors per node.

    `channels` are the memory channels of one processor.
    """
    return [
        {
            "machine": row["machine"],
            "cpu": row["cpu"],
            "cores": row["cores"] * (2 if "X2" in row["machine"] else 1),
            "memory_b": row["dram_gb"] * 1e9,
            "kernel": row["kernel"],
            "nic": row["network"],
            "processing": row["nic"],
            "link_b_s": _LINK_RATES_B_S[row["network"]],
            "channels": row["channels"],
            "dram_b_s": max(row["dram_gb_s"]) * 1e9,
            "ganged": None,
            "page_policy": "",
            "published": True,
        }
        for row in paper()["table_1_machines"]
    ]


def runs_in_cache(results: pl.DataFrame) -> frozenset[str]:
    """The runs of STREAM whose arrays may lie in the last-level cache, as their notes say.

    `results` are rows of `analysis.history.nights.read_results`.
    """
    return frozenset(
        run
        for run, texts in results.filter(case=_STREAM).select("run", "notes").iter_rows()
        if any(note.matches(text) for note in _CACHE_NOTES for text in texts or ())
    )


def _triad_row(history: MachineHistory) -> Row | None:
    """Return the machine's row of Table II, from its latest run in memory with `off` and `on`.

    None if there is no such run. The row has the run's slowdown, or None if the run has none.
    """
    stream = history.nights.filter(
        pl.col("case") == _STREAM, ~pl.col("run").is_in(history.runs_in_cache)
    )
    rates = stream.filter(quantity="fom", unit="B/s").sort("started_s", descending=True)
    for run in rates["run"].unique(maintain_order=True):
        rate_by_arm = dict(rates.filter(run=run).select("arm", "value").iter_rows())
        if _OFF in rate_by_arm and _ON in rate_by_arm:
            slowdown_rows = stream.filter(run=run, quantity="slowdown", arm=_ON)
            slowdown = slowdown_rows.row(0, named=True) if slowdown_rows.height else {}
            return {
                "machine": history.machine,
                "off_b_s": rate_by_arm[_OFF],
                "on_b_s": rate_by_arm[_ON],
                "published": False,
                "night": str(rates.filter(run=run)["night"][0]),
                "slowdown": slowdown.get("value"),
                "low": slowdown.get("low"),
                "high": slowdown.get("high"),
                "verdict": slowdown.get("verdict") or "",
                "emulated": run in history.emulated_runs,
            }
    return None


def _published_triads() -> list[Row]:
    return [
        {
            "machine": row.machine,
            "off_b_s": row.off * 1e9,
            "on_b_s": row.on * 1e9,
            "published": True,
            "night": "",
            "slowdown": None,
            "low": None,
            "high": None,
            "verdict": "",
            "emulated": False,
        }
        for row in table_2_rows()
    ]


def core_rates(machines: Sequence[Row], triads: Sequence[Row]) -> list[Row]:
    """Return the rows of figure 1: the rate of the network, and the rate of triad per core.

    A machine has a row if both rates are known. If a published machine was measured at several
    memory clocks, its fastest triad is used.
    """
    rate_rows = []
    for machine in machines:
        own_triads = [triad for triad in triads if _is_triad_of(machine, triad)]
        if own_triads and machine["cores"] and machine["link_b_s"]:
            fastest_b_s = max(triad["off_b_s"] for triad in own_triads)
            rate_rows.append(
                {
                    "machine": machine["machine"],
                    "network_b_s": machine["link_b_s"],
                    "memory_core_b_s": fastest_b_s / machine["cores"],
                    "published": machine["published"],
                    "emulated": any(triad["emulated"] for triad in own_triads),
                }
            )
    return rate_rows


def _is_triad_of(machine: Row, triad: Row) -> bool:
    """Return whether a row of Table II is of the machine of a row of Table I.

    In Table II, the name of a published machine may end in the memory clock: `Westmere-800`.
    """
    published: bool = machine["published"]
    name, triad_name = str(machine["machine"]), str(triad["machine"])
    is_same_name = triad_name == name or (published and triad_name.startswith(f"{name}-"))
    return triad["published"] == published and is_same_name


def headroom(machines: Sequence[Row], triads: Sequence[Row]) -> list[Row]:
    """Return a row per machine: triad's share of the memory bandwidth, and triad's slowdown.

    The share is that without writes. Only machines whose memory bandwidth and slowdown are known
    have a row. Slowdowns whose verdict allows no statement on the effect are left out. A published
    machine has a row for each of its memory clocks.
    """
    measured_machines = {row["machine"]: row for row in machines if not row["published"]}
    headroom_rows = []
    for row in triads:
        if row["published"]:
            table_1 = table_1_row(row["machine"])
            slowdown: float | None = row["off_b_s"] / row["on_b_s"]
            dram_b_s: float | None = _dram_b_s(row["machine"], table_1)
            processing = table_1["nic"]
        else:
            machine = measured_machines.get(row["machine"], {})
            slowdown = row["slowdown"]
            dram_b_s = machine.get("dram_b_s")
            processing = machine.get("processing", "")
        if dram_b_s and slowdown and row["verdict"] not in _VERDICTS_WITHOUT_STATEMENT:
            headroom_rows.append(
                {
                    "machine": row["machine"],
                    "share": row["off_b_s"] / dram_b_s,
                    "slowdown": slowdown,
                    "published": row["published"],
                    "processing": processing,
                    "emulated": row["emulated"],
                }
            )
    return headroom_rows


def _dram_b_s(machine: str, table_1: Mapping[str, Any]) -> float:
    """Memory bandwidth of a machine of Table II at the memory clock in the machine's name.

    `table_1` is the machine's row of Table I, which has the bandwidths at all clocks.
    """
    rates_gb_s, clock = table_1["dram_gb_s"], machine.removeprefix(f"{table_1['machine']}-")
    position = table_1["dram_mhz"].index(int(clock)) if len(rates_gb_s) > 1 else 0
    return 1e9 * float(rates_gb_s[position])


def slowdowns(histories: Sequence[MachineHistory]) -> list[Row]:
    """Return the latest slowdown of every campaign, case and treatment on every machine.

    Rows are in order of campaign, case, treatment and slowdown. Slowdowns whose verdict allows no
    statement on the effect are left out.
    """
    rows: list[Row] = []
    for history in histories:
        slowdown_rows = history.nights.filter(
            pl.col("quantity") == "slowdown",
            pl.all_horizontal(pl.col("value", "low", "high").is_not_null()),
            pl.col("verdict").is_null() | ~pl.col("verdict").is_in(_VERDICTS_WITHOUT_STATEMENT),
        )
        latest_slowdowns = latest_rows(slowdown_rows).select(
            "campaign",
            "case",
            "arm",
            "machine",
            pl.col("night").cast(pl.String),
            "value",
            "low",
            "high",
            pl.col("verdict").fill_null(""),
            emulated=pl.col("run").is_in(history.emulated_runs),
        )
        rows += latest_slowdowns.iter_rows(named=True)
    return sorted(rows, key=lambda row: (row["campaign"], row["case"], row["arm"], row["value"]))


def _text(value: Any) -> str:
    return one_line(str(value or ""))


def _positive(value: Any) -> float | None:
    """The value if it is a positive number up to `MAX_FIGURE`, otherwise None."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value <= MAX_FIGURE else None
