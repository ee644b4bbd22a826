"""Claims that a run of the campaign `qualify` supports (docs/add-a-machine.md#claims).

Each row of `CLAIMS` has an expression, which says how far the run is from what is claimed, and two
limits for it. What was not measured is never allowed; emulated writes allow no claim on hardware.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import attrgetter
from typing import get_args

import polars as pl

from analysis.effects.verdict import emulations
from analysis.questions.question import Limit, Question, shared
from analysis.questions.shown import section
from analysis.report.data import RunData
from analysis.samples.columns import read_nested
from analysis.samples.pairs import judged, level
from analysis.samples.provenance import mapping
from analysis.statistics.interval import FEWEST
from records.acceptance import AcceptanceLimits
from records.run import QUALIFY

#: Reasons of runs in which a writer was not held or released as it should be.
_UNHELD = r"writer \d+ (started|stopped|reported nothing|wrote nothing)"
#: Share of a writer's rate from which a device shows it.
_SHOWN = AcceptanceLimits.foreign_share or 0.0


@cache
def _injectors() -> tuple[str, ...]:
    """Those with a case of their own; all other cases are written by the machine's."""
    from records.machine.site import InjectorName  # takes a while, and few runs need it

    return get_args(InjectorName)


@dataclass(frozen=True)
class Evidence:
    """What the claims are judged by.

    `runs`: samples but warm-ups; `writers` that wrote, and `conditions`, of those that ended, with
    `case`, `role`, `rate` and `elapsed_s` of the sample.
    """

    runs: pl.DataFrame
    writers: pl.DataFrame
    conditions: pl.DataFrame
    #: Rate of the link, if the site file has it; slowdowns of A/A; clock offsets of the nodes.
    link_b_s: float | None = None
    floors: Sequence[float] = ()
    offsets_s: Sequence[float] = ()

    def of(self, *cases: str) -> Evidence:
        """Some cases alone; without a name those of no single injector."""
        chosen = pl.col("case").is_in(cases) if cases else ~pl.col("case").is_in(_injectors())
        frames = {name: getattr(self, name) for name in ("runs", "writers", "conditions")}
        return replace(self, **{name: frame.filter(chosen) for name, frame in frames.items()})


def evidence_of(run: RunData) -> Evidence:
    """What a run holds."""
    read = read_nested(run.path)
    runs = judged(read.frame.with_row_index("row")).filter(~pl.col("warmup"))
    levels = [level(name).alias(name) for name in ("rate", "load", "buffer")]
    runs = runs.with_columns(pl.col("case", "role", "outcome").cast(pl.String), *levels)
    ended = runs.filter(pl.col("outcome").is_in(["kept", "rejected"]))
    of_sample = ended.select("row", "case", "role", "rate", "elapsed_s")
    nic = mapping(mapping(run.header.facts.get("site")).get("nic"))
    clocks = [mapping(record.get("clock_offsets_s")) for record in run.provenance.values()]
    return Evidence(
        runs,
        read.writers.filter(pl.col("message_b") > 0).join(of_sample, on="row"),
        read.conditions.join(of_sample, on="row"),
        nic.get("link_rate_b_s") or None,
        [row.slowdown.value for row in run.results if row.role == "floor" and row.slowdown],
        [s for offsets in clocks for s in offsets.values() if isinstance(s, int | float)],
    )


# The rows from which an expression takes how far a run is from what is claimed.


def _counts(evidence: Evidence, direction: str) -> pl.DataFrame:
    """What each target's device counted / what writers' own rows say, run by run.

    Rows that are made of the origin's device counter show nothing of counters. No count is 0, if
    other runs have one.
    """
    rows = evidence.writers.filter(
        pl.col("direction") == direction,
        pl.col("limited_by").is_null() | (pl.col("limited_by") == "agent"),
        pl.col("bytes_b") > 0,
    )
    written_b = (pl.col("bytes_b") / pl.col("observed_share").fill_null(1)).sum()
    counted_b = (pl.col("counted_b") * pl.col("elapsed_s") / pl.col("counted_s")).first()
    shares = rows.group_by("row", "target").agg(share=counted_b.fill_null(0) / written_b)
    return shares if rows["counted_b"].count() else shares.clear()


def _full_rates(evidence: Evidence) -> pl.DataFrame:
    full = evidence.writers.filter(pl.col("asked_b_s").is_null(), pl.col("direction") == "write")
    return full.with_columns(link_b_s=pl.lit(evidence.link_b_s, pl.Float64()))


def _limited_rates(evidence: Evidence) -> pl.DataFrame:
    """What limited writers reach / what was asked; before the application, if known."""
    rate_b_s = pl.col("rate_before_b_s").fill_null(pl.col("rate_alone_b_s"))
    asked = evidence.writers.filter(pl.col("asked_b_s") > 0).group_by("rate", "direction")
    return asked.agg(ratio=(rate_b_s / pl.col("asked_b_s")).median())


def _arrivals(evidence: Evidence) -> pl.DataFrame:
    """Whether something arrives, and whether something writes; neither if too little to show."""
    writing = evidence.writers.filter(direction="write").group_by("row")
    rates = writing.agg(pl.col("rate_alone_b_s", "rate_b_s").sum())
    most_b_s = _SHOWN * pl.lit(rates["rate_alone_b_s"].max(), pl.Float64())
    wrote = pl.when(pl.col("rate_b_s") > 2 * most_b_s).then(True)
    return evidence.conditions.join(rates, on="row", how="left").select(
        arrives=pl.col("received_b_s") > most_b_s,
        writes=pl.when(pl.col("role") != "effect").then(False).otherwise(wrote),
    )


def _far(evidence: Evidence, load: str, role: str, figure: str) -> pl.DataFrame:
    """A figure with the memory called far / with the near one, pair by pair."""
    near, far = (
        evidence.runs.filter(status="counts", role=role, load=load, buffer=place)
        for place in ("nic", "other")
    )
    pairs = near.join(far, on=["block", "pair"], suffix="_far")
    return pairs.select(ratio=pl.col(f"{figure}_far") / pl.col(figure)).drop_nulls()


@dataclass(frozen=True)
class Claim:
    """What may be claimed, how far a run is from it, its limits, a remedy."""

    name: str
    text: str
    #: The rows, and how far they are from what is claimed; null if that was not measured.
    rows: Callable[[Evidence], pl.DataFrame]
    away: pl.Expr
    #: What the figure is, and up to which it is allowed, and allowed with a caveat.
    figure: str
    allowed: float
    caveat: float
    remedy: str
    #: Whether it is of hardware, which no emulation shows; and of each injector by itself, too.
    hardware: bool = True
    by_injector: bool = False


#: The claim without which nothing else on hardware counts.
_COUNTER = "counter of writes"
_NINE_OF_TEN = (pl.col("share") - 1).abs().quantile(0.9)
_LINK_SHARE = pl.col("rate_alone_b_s").median() / pl.col("link_b_s").first()
_TYPICAL = pl.when(pl.len() >= FEWEST).then(pl.col("ratio").median())
_WRITER_FAILED = pl.col("outcome").str.starts_with("injector_") | pl.col("reason").fill_null(
    ""
).str.contains(_UNHELD)
_CLOCK_DROP = 1 - pl.col("frequency_hz") / pl.col("frequency_hz").median().over("node")
_CONDITIONS = attrgetter("conditions")
_RUNS, _IDLE = "share of runs", "take idle nodes, whole ones (--exclusive)"
CLAIMS = (
    Claim(_COUNTER, "devices count what is written", partial(_counts, direction="write"),
          _NINE_OF_TEN, "difference in nine of ten runs", 0.02, 0.12,
          "correct `device` or `rails`, or report the device: its counter is not known",
          by_injector=True),
    Claim("counter of reads", "devices count what is read", partial(_counts, direction="read"),
          _NINE_OF_TEN, "difference in nine of ten runs", 0.02, 0.12,
          "as for writes (docs/injectors.md)"),
    # More than the link carries is as far off.
    Claim("full rate", "writers reach the rate of the link", _full_rates,
          pl.when(_LINK_SHARE <= 1.02).then(1 - _LINK_SHARE).otherwise(_LINK_SHARE),
          "missing share", 0.2, 1.0, "larger messages, more origins, or the right `nic.link_rate`",
          by_injector=True),
    Claim("throttled", "limited writers write what was asked", _limited_rates,
          (pl.col("ratio") - 1).abs().max(), "difference", 0.05, 0.15,
          "name figures by the rate that was reached",
          hardware=False, by_injector=True),
    Claim("held", "writers are held between runs, and released",
          lambda evidence: evidence.runs.filter(role="effect"), _WRITER_FAILED.mean(),
          _RUNS, 0, 0.1, "look at the logs of the writers, and at docs/injectors.md",
          hardware=False, by_injector=True),
    Claim("foreign writer", "nothing else writes; one that does would be seen", _arrivals,
          (pl.col("arrives") != pl.col("writes")).mean(), _RUNS, 0, 0.1,
          "find what else uses the devices of these nodes"),
    Claim("NUMA of device", "`nic` is the NUMA node of the device",
          partial(_far, load="idle", role="effect", figure="writer_rate_b_s"), _TYPICAL,
          "rate into far / near memory", 0.98, 1.02,
          "correct `facts.nic_node`, or `numa_node` of `rails`"),
    Claim("NUMA of cores", "cores are on the NUMA node that they are said to be on",
          partial(_far, load="read", role="baseline", figure="fom"), _TYPICAL,
          "bandwidth of far / near memory", 0.98, 1.02,
          "look at the firmware's NUMA settings, or the virtual machine's map", hardware=False),
    Claim("repeats", "off against off repeats",
          lambda evidence: pl.DataFrame({"floor": evidence.floors}, {"floor": pl.Float64()}),
          (pl.col("floor") - 1).abs().max(), "slowdown - 1", 0.02, 0.05, _IDLE, hardware=False),
    Claim("foreign load", "no other process loads the targets", _CONDITIONS,
          (pl.col("foreign_cpus") > AcceptanceLimits.foreign_cpus).mean(),
          _RUNS, 0, 0.1, _IDLE, hardware=False),
    Claim("steal", "no hypervisor takes processor time", _CONDITIONS,
          (pl.col("steal_share") > AcceptanceLimits.steal_share).mean(),
          _RUNS, 0, 0.1, _IDLE, hardware=False),
    Claim("frequency", "cores keep their frequency", _CONDITIONS,
          (AcceptanceLimits.frequency_drop < _CLOCK_DROP).mean(),
          _RUNS, 0, 0.1, "set the governor `performance`", hardware=False),
    # The offset of a single node is to itself.
    Claim("clocks", "the clocks of the nodes agree",
          lambda evidence: pl.DataFrame({"s": evidence.offsets_s}, {"s": pl.Float64()}),
          pl.when(pl.len() > 1).then(pl.col("s").abs().max()), "seconds", 0.1, 1.0,
          "start chronyd or ntpd there", hardware=False),
)  # fmt: skip


_OF_CLAIM = ("figure", "allowed", "caveat", "text", "remedy")


def claimed(evidence: Evidence, claims: Sequence[Claim] = CLAIMS) -> pl.DataFrame:
    """A row for each claim of the machine, then for those of each injector that has runs."""
    there = [name for name in _injectors() if not evidence.of(name).runs.is_empty()]
    subjects = [("", evidence.of()), *((name, evidence.of(name)) for name in there)]
    return pl.DataFrame(
        [
            {
                "injector": injector,
                "claim": claim.name,
                "away": claim.rows(of).select(claim.away.cast(pl.Float64())).item(),
                "emulated": claim.hardware and bool(emulations(of.runs["transport"])),
                **{name: getattr(claim, name) for name in _OF_CLAIM},
            }
            for injector, of in subjects
            for claim in claims
            if claim.by_injector or not injector
        ],
        infer_schema_length=None,
    )


def _rows(run: RunData) -> pl.DataFrame:
    return claimed(evidence_of(run)) if run.header.campaign == QUALIFY else pl.DataFrame()


def qualified(answer: pl.DataFrame) -> bool:
    """Whether devices count what is written, and no claim but those of injectors is refused."""
    states = dict(answer.filter(injector="").select("claim", "word").iter_rows())
    return states[_COUNTER] in ("allowed", "caveat") and "refused" not in states.values()


def _sentences(answer: pl.DataFrame) -> list[str]:
    verdict = "qualified" if qualified(answer) else "not qualified"
    return [f"The machine is {verdict}.", *["Writes were emulated."] * answer["emulated"].any()]


_AWAY = pl.col("away")
QUALIFICATION = Question(
    name="qualification",
    title="What may be claimed of this machine",
    text="How far this run is from each claim, up to which it is allowed, and allowed with a"
    " caveat. Claims on hardware are refused if writes were emulated.",
    rows=_rows,
    by=("injector", "claim"),
    facts=shared("away", "figure", "allowed", "caveat", "emulated", "text", "remedy"),
    limits=(
        Limit("refused", when=pl.col("emulated")),
        Limit("not shown", when=_AWAY.is_null(), why="not measured"),
        Limit("allowed", when=pl.col("allowed") >= _AWAY),
        Limit("caveat", when=pl.col("caveat") >= _AWAY),
        Limit("refused", when=pl.col("caveat") < _AWAY),
    ),
    sentences=_sentences,
    columns=("allowed", "caveat", "figure", "word", "text", "remedy"),
    headings={
        "away": "how far it is",
        "allowed": "allowed up to",
        "caveat": "with a caveat up to",
        "figure": "of what",
        "word": "state",
        "text": "what is claimed",
        "remedy": "if it is not allowed",
    },
    plot=None,
)
SECTIONS = [section(QUALIFICATION, "run", 5)]
