"""What `run.json` says was asked, against the campaign's text and what its digest is of.

`resolved` has the cases of this machine and is hashed into `digest`, from which the seed and so the
order of all runs follow. `campaign_text` has the entries that the cases were made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator

from analysis.samples.faults import Faults, differing
from analysis.samples.figures import WORKLOADS
from nimc.base.errors import InputError, show
from nimc.base.json_limits import validated
from nimc.base.marked_yaml import parse
from nimc.records.arms import named_level, parts_of, standard_arms
from nimc.records.plan import LIMITS, Demand
from nimc.records.run import FLOOR, MARGIN, RunHeader, digest_of, facts_of, most_pairs, workload_of


class _Pairs(BaseModel):
    floor: int = FLOOR
    cap: int | None = None
    precision: float | None = None


class _Verify(BaseModel):
    min_share: float | None = None
    retries: int = Demand.retries
    #: Limits of disturbance; null is recorded, but not judged.
    foreign_cpus: Any = 0
    steal_share: Any = 0
    frequency_drop: Any = 0
    foreign_share: Any = 0


class _Injector(BaseModel):
    name: str = "auto"
    message: Annotated[str, BeforeValidator(str)] = "auto"
    rate: Annotated[str, BeforeValidator(str)] = "full"


class _Entry(BaseModel):
    check: Annotated[str, AfterValidator(workload_of)]
    case: str | None = None
    set: dict[str, Any] = {}
    factors: dict[str, list[Any]] = {}
    exclude: list[Any] = []
    only: list[Any] = []

    @property
    def name(self) -> str:
        return self.case or self.check


class _Campaign(BaseModel):
    """The keys of a campaign that are compared (`nimc.campaign.schema` has all, with rules)."""

    name: str
    workloads: list[_Entry]
    arms: list[str] = []
    factors: dict[str, list[Any]] = {}
    exclude: list[Any] = []
    only: list[Any] = []
    pairs: _Pairs = _Pairs()
    verify: _Verify = _Verify()
    margin: float = MARGIN
    seed: int = 1
    injector: _Injector = _Injector()

    def entry_of(self, case: str) -> _Entry | None:
        """The entry that a case is of, `NAME` or `NAME@LEVELS`; the longest name that fits."""
        of = [each for each in self.workloads if f"{case}@".startswith(f"{each.name}@")]
        return max(of, key=lambda each: len(each.name), default=None)


#: Field, value found, and what is allowed.
Difference = tuple[str, Any, str]


def judge_asked(
    run: Path, header: RunHeader, workloads: Iterable[tuple[str, str]], faults: Faults
) -> None:
    """Add the faults of the header; `workloads`: cases, and the workloads of their samples."""
    path = run / "run.json"
    found: list[Difference] = []
    try:
        asked = _asked(header, Path(f"{path}: campaign_text"))
        found += _numbers(header, asked, "campaign_text")
        found += _cases(header, asked, workloads)
        if header.resolved is not None:
            at = Path(f"{path}: resolved.campaign")
            resolved = validated(_Campaign, header.resolved.get("campaign"), at)
            found += _numbers(header, resolved, "resolved")
            found += _resolved(header, asked, resolved)
    except InputError as error:
        faults.add(str(error))
    for name, value, allowed in found:
        faults.add(f"{path}: {name}: {show(value)} found; allowed: {allowed}")


def unjudged(header: RunHeader) -> list[str]:
    """Limits that the campaign's text sets to null, which a note of every sample names."""
    try:
        verify = _asked(header, Path("campaign_text")).verify
    except InputError:  # a fault of its own
        return []
    return [name for name in LIMITS if getattr(verify, name) is None]


def _asked(header: RunHeader, at: Path) -> _Campaign:
    return validated(_Campaign, parse(header.campaign_text, at).data, at)


def _numbers(header: RunHeader, campaign: _Campaign, by: str) -> Iterator[Difference]:
    """Numbers and name of the header that are not those of a campaign."""
    pairs, verify, asked = campaign.pairs, campaign.verify, header.asked
    most = most_pairs(pairs.floor, pairs.cap, pairs.precision)
    min_share = verify.min_share or facts_of(header).site.proof.min_share or asked.min_share
    for name, value, expected in (
        ("campaign", header.campaign, campaign.name),
        ("margin", header.margin, campaign.margin),
        ("pairs_floor", header.pairs_floor, pairs.floor),
        ("pairs_cap", header.pairs_cap, most),
        ("precision", header.precision, pairs.precision),
        ("asked.retries", asked.retries, verify.retries),
        ("asked.min_share", asked.min_share, min_share),
    ):
        if value != expected:
            yield name, value, f"{expected}, by {by}"


def _cases(
    header: RunHeader, campaign: _Campaign, workloads: Iterable[tuple[str, str]]
) -> Iterator[Difference]:
    """Cases of no entry of the text, treatments of other arms or levels, other workloads."""
    for case, names in header.asked.cases.items():
        entry = campaign.entry_of(case)
        if entry is None:
            known = ", ".join(each.name for each in campaign.workloads)
            yield f"asked.cases.{case}", case, f"a case of {known}, by campaign_text"
        else:
            yield from _treatments(f"asked.cases.{case}", names, campaign, entry, header)
    for case, workload in workloads:
        entry = campaign.entry_of(case)
        # Checks of others may name a workload of these.
        if entry and entry.check in WORKLOADS and workload != entry.check:
            yield f"workload of {case}", workload, entry.check


def _treatments(
    name: str, found: list[str], campaign: _Campaign, entry: _Entry, header: RunHeader
) -> Iterator[Difference]:
    """Other treatments than the arms at levels of the factors; cells may leave some out."""
    same_host = facts_of(header).site.origins.policy == "same_host"
    arms = campaign.arms or standard_arms(same_host=same_host)
    factors = {**campaign.factors, **entry.factors}
    cells = [*campaign.exclude, *campaign.only, *entry.exclude, *entry.only]
    made = list(dict.fromkeys(parts_of(each)[0] for each in found))
    whole = made if factors else found
    if set(made) - set(arms) or (not cells and whole != arms):
        yield name, ", ".join(whole), ", ".join(arms)
    for each in found:
        for factor, level in parts_of(each)[1].items():
            levels = [named_level(level) for level in factors.get(factor, [])]
            if level not in levels:
                yield f"{name}: {factor}", level, ", ".join(levels) or "no such factor"


def _resolved(header: RunHeader, asked: _Campaign, resolved: _Campaign) -> Iterator[Difference]:
    """What the digest is of has these cases, this text's settings and this machine."""
    document = header.resolved or {}
    if (digest := digest_of(document)) != header.digest:
        yield "digest", header.digest, f"{digest}, of 'resolved'"
    cases = [each.name for each in resolved.workloads]
    if list(header.asked.cases) != cases:
        yield "asked.cases", ", ".join(header.asked.cases), f"{', '.join(cases)}, by 'resolved'"
    for entry in resolved.workloads:
        name = f"asked.cases.{entry.name}"
        names = header.asked.cases.get(entry.name, [])
        yield from _treatments(name, names, resolved, entry, header) if names else ()
        of = asked.entry_of(entry.name)
        if of and of.check != entry.check:
            yield f"{name}: check", of.check, f"{entry.check}, by 'resolved'"
        for variable, value in of.set.items() if of else ():
            if entry.set.get(variable) != value:
                yield f"{name}: {variable}", value, f"{entry.set.get(variable)}, by 'resolved'"
    for key in ("seed", "injector"):
        if getattr(asked, key) != getattr(resolved, key):
            yield f"campaign_text: {key}", getattr(asked, key), f"{getattr(resolved, key)}"
    site = header.facts.get("site")
    machine = document.get("machine")
    if isinstance(site, dict) and isinstance(machine, dict):
        for name, value, allowed in differing(site, machine):
            yield f"facts.site.{name}", value, f"{allowed}, by 'resolved'"
