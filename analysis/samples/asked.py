"""What `run.json` says was asked, against the text of the campaign that it keeps.

All that follows from the text and the machine's file without the workloads' own code: numbers of
pairs, margin, precision, what a run must fulfil, the cases and their arms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

from analysis.samples.faults import Faults
from analysis.samples.figures import WORKLOADS
from nimc.base.errors import InputError, show
from nimc.base.json_limits import validated
from nimc.base.marked_yaml import parse
from nimc.records.arms import parts_of, standard_arms
from nimc.records.plan import Demand
from nimc.records.run import FLOOR, MARGIN, HeaderFacts, RunHeader, facts_of, most_pairs


class AskedPairs(BaseModel):
    """Its numbers of pairs."""

    floor: int = FLOOR
    cap: int | None = None
    precision: float | None = None


class AskedVerify(BaseModel):
    """What its runs must fulfil, of what the header keeps."""

    min_share: float | None = None
    retries: int = Demand.retries


class AskedEntry(BaseModel):
    """A workload, with its cases."""

    check: str
    case: str | None = None
    sweep: dict[str, Any] | None = None
    factors: dict[str, list[Any]] = {}
    exclude: list[Any] = []
    only: list[Any] = []

    @property
    def name(self) -> str:
        """What the names of its cases begin with."""
        return self.case or self.check


class AskedCampaign(BaseModel):
    """The keys of a campaign that are compared (`nimc.campaign.schema` has all, with rules)."""

    name: str
    workloads: list[AskedEntry]
    arms: list[str] = []
    factors: dict[str, list[Any]] = {}
    exclude: list[Any] = []
    only: list[Any] = []
    pairs: AskedPairs = AskedPairs()
    verify: AskedVerify = AskedVerify()
    margin: float = MARGIN

    def entry_of(self, case: str) -> AskedEntry | None:
        """The entry that a case is of, `NAME` or `NAME@LEVELS`; the longest name that fits."""
        of = [
            each for each in self.workloads if case == each.name or case.startswith(f"{each.name}@")
        ]
        return max(of, key=lambda each: len(each.name), default=None)


_CAMPAIGN = TypeAdapter(AskedCampaign)


def judge_asked(
    run: Path, header: RunHeader, workloads: Iterable[tuple[str, str]], faults: Faults
) -> None:
    """Add the faults of the header; `workloads`: cases, and the workloads of their samples."""
    path = run / "run.json"
    at = Path(f"{path}: campaign_text")
    try:
        campaign = validated(_CAMPAIGN, parse(header.campaign_text, at).data, at)
    except InputError as error:
        faults.add(str(error))
        return
    for name, value, allowed in (
        *_numbers(header, facts_of(header), campaign),
        *_cases(header, campaign),
        *_workloads(workloads, campaign),
    ):
        faults.add(f"{path}: {name}: {show(value)} found; allowed: {allowed}, by campaign_text")


def _numbers(
    header: RunHeader, facts: HeaderFacts, campaign: AskedCampaign
) -> Iterator[tuple[str, Any, Any]]:
    """Field, value and what follows of the header's numbers and name."""
    pairs, verify, asked = campaign.pairs, campaign.verify, header.asked
    most = most_pairs(pairs.floor, pairs.cap, pairs.precision)
    min_share = verify.min_share or facts.site.proof.min_share
    for name, value, expected in (
        ("campaign", header.campaign, campaign.name),
        ("margin", header.margin, campaign.margin),
        ("pairs_floor", header.pairs_floor, pairs.floor),
        ("pairs_cap", header.pairs_cap, most),
        ("precision", header.precision, pairs.precision),
        ("asked.retries", asked.retries, verify.retries),
        ("asked.min_share", asked.min_share, min_share or asked.min_share),
    ):
        if value != expected:
            yield name, value, expected


def _cases(header: RunHeader, campaign: AskedCampaign) -> Iterator[tuple[str, Any, Any]]:
    """Cases of no entry, entries without cases, and treatments of other arms or levels."""
    left_out = header.asked.left_out
    asked = header.asked.cases
    of_entries = {case: campaign.entry_of(case) for case in asked}
    for case, entry in of_entries.items():
        name = f"asked.cases.{case}"
        if entry is None:
            yield name, case, ", ".join(each.name for each in campaign.workloads)
            continue
        factors = {**campaign.factors, **entry.factors}
        cells = [*campaign.exclude, *campaign.only, *entry.exclude, *entry.only]
        plain = not factors and not cells
        if case != entry.name and plain and entry.sweep is None:
            yield name, case, entry.name
        yield from _treatments(name, asked[case], _arms(header, campaign), factors, cells)
    for entry in campaign.workloads if left_out is not None else ():
        known = [*asked, *(text.split(" ")[0] for text in left_out or ())]
        if all(campaign.entry_of(case) != entry for case in known):
            yield "asked.cases", list(asked), f"one of {entry.name}"


def _arms(header: RunHeader, campaign: AskedCampaign) -> list[str]:
    same_host = facts_of(header).site.origins.policy == "same_host"
    return campaign.arms or standard_arms(same_host=same_host)


def _treatments(
    name: str, found: list[str], arms: list[str], factors: Mapping[str, list[Any]], cells: list[Any]
) -> Iterator[tuple[str, Any, Any]]:
    made = dict.fromkeys(parts_of(each)[0] for each in found)
    if (not factors and not cells and found != arms) or (set(made) - set(arms)):
        yield name, ", ".join(found), ", ".join(arms)
    elif not cells and set(arms) - set(made):
        yield name, ", ".join(made), ", ".join(arms)
    for each in found:
        for factor, level in parts_of(each)[1].items():
            levels = [_text(level) for level in factors.get(factor, [])]
            if level not in levels:
                yield f"{name}: {factor}", level, ", ".join(levels) or "no such factor"


def _text(level: Any) -> str:
    """A level as it stands in the name of a treatment."""
    return (str(level).lower() if isinstance(level, bool) else str(level)).replace("/", "_")


def _workloads(
    workloads: Iterable[tuple[str, str]], campaign: AskedCampaign
) -> Iterator[tuple[str, Any, Any]]:
    """Samples of a case are of its entry's workload; checks of others may name one of these."""
    for case, workload in workloads:
        entry = campaign.entry_of(case)
        if entry and entry.check in WORKLOADS and workload != entry.check:
            yield f"workload of {case}", workload, entry.check
