"""The reach of a planned campaign: which effects it can show, and how many pairs 'no effect' needs.

A *pair* is one run of each treatment. An *A/A pair* repeats the baseline, so its ratio shows how
well the baseline repeats. The *spread* is the standard deviation of the logarithm of a run's time.
The *margin* is the largest change that counts as 'no effect'. A *control* is a run with a process
that keeps the writers' cores busy and writes nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.effects.power import min_loss, pairs_for_no_effect, share_after_writes
from analysis.effects.statements import hypotheses
from analysis.statistics.evidence import interim_analyses
from analysis.statistics.interval import MIN_VALUES
from nimc.campaign.allocations import Variation, variation
from nimc.campaign.plan import Case, Plan
from records.arms import arm_of
from records.campaign import Campaign, Entry
from records.errors import InputError
from records.groups import grouped
from records.run import RequestedEntry, entries_of, own_runs
from records.text import first_names
from records.units import percentage, plural

if TYPE_CHECKING:
    import polars as pl

#: Spread that is assumed if no earlier run of the case on the machine has enough A/A pairs.
_DEFAULT_SPREAD = 0.01
#: Number of the latest campaign runs of the cases that are read to find spreads.
_MAX_RUNS = 10
#: Largest number of cases that a printed line names.
_MAX_NAMES = 6
#: Number of pairs with which a large effect shows, however many questions a campaign has.
_ENOUGH_PAIRS = 96


#: The check of a case, and its settings and levels as text. Equal cases have equal identities.
_Identity = tuple[str, str]


@dataclass(frozen=True)
class Spread:
    """Spread of the runs of a case."""

    share: float = _DEFAULT_SPREAD
    #: Folder of the campaign run in which it was measured; None if it is assumed.
    run: str | None = None


@dataclass(frozen=True)
class PastRuns:
    """What earlier campaign runs of the same cases on a machine show."""

    spreads: Mapping[_Identity, Spread] = field(default_factory=dict)
    #: Variation between allocations in the last campaign run with several allocations of a case;
    #: None if there is no such run.
    variation: Variation | None = None

    def spread_of(self, case: Entry) -> Spread:
        """Return the spread of a case, which is assumed if no run measured it."""
        return self.spreads.get(_identity(case), Spread())


def _identity(case: Entry | RequestedEntry) -> _Identity:
    return case.check, json.dumps(case.set, sort_keys=True)


def past_runs(results: Path, machine: str, cases: Iterable[Entry]) -> PastRuns:
    """Return what the latest campaign runs of these cases on a machine show.

    The spread of a case is that of its last campaign run with enough A/A pairs. Cases are the same
    if their checks, settings and levels are.
    """
    planned = set(map(_identity, cases))
    runs: list[tuple[float, Path, dict[str, _Identity]]] = []
    for path, header in own_runs(results):
        identities = {entry.name: _identity(entry) for entry in entries_of(header) or []}
        same = {case: known for case, known in identities.items() if known in planned}
        if same and header.machine == machine:
            runs.append((header.started_s, path, same))
    past = PastRuns()
    for _, path, same in sorted(runs, reverse=True)[:_MAX_RUNS]:
        with suppress(InputError, OSError):
            pairs = _pairs_in(path, same)
            new_spreads = {
                same[case]: Spread(share, str(path)) for case, share in spreads(pairs).items()
            }
            past = PastRuns({**new_spreads, **past.spreads}, past.variation or variation(pairs))
        if past.variation and planned <= past.spreads.keys():
            break
    return past


def _pairs_in(run: Path, cases: Collection[str]) -> pl.DataFrame:
    # Not at the top: the import of Polars takes 0.2 s and is not needed if there is no earlier run.
    import polars as pl

    from analysis.samples.columns import read_run
    from analysis.samples.pairs import judge_samples, pair_table

    samples = read_run(run).frame.filter(pl.col("case").cast(pl.String).is_in(cases))
    return pair_table(judge_samples(samples))


def spreads(pairs: pl.DataFrame) -> dict[str, float]:
    """Return case -> spread of a run, from the A/A pairs of each case that has enough of them.

    Cases whose figures are all equal are left out.
    """
    import polars as pl

    arms = pairs["arm"].cast(pl.String).unique()
    aa_arms = [arm for arm in arms if arm_of(arm).role == "floor"]
    aa_pairs = pairs.filter(pl.col("arm").cast(pl.String).is_in(aa_arms))
    case_spreads = (
        aa_pairs.group_by(pl.col("case").cast(pl.String))
        .agg(spread=pl.col("ratio").log().std() / math.sqrt(2), pairs=pl.len())
        .filter((pl.col("pairs") >= MIN_VALUES) & (pl.col("spread") > 0))
    )
    return dict(case_spreads.select("case", "spread").iter_rows())


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What one case can show: effects that at least 90 % of runs of the campaign would show."""

    case: str
    spread: float
    #: Folder of the campaign run in which the spread was measured; None if it is assumed.
    spread_run: str | None
    #: Number of the campaign's questions (docs/campaigns.md). The probability of a wrong verdict is
    #: bounded over all of them together.
    family: int
    #: Roles of the case's treatments: `effect`, `control`, `floor` (a repeated baseline) and
    #: others.
    roles: list[str]
    #: Floor and cap of the case's number of pairs.
    pairs: tuple[int, int]
    #: The smallest slowdown, minus 1, that shows with the floor of pairs and with the cap of pairs.
    #: It is None if no slowdown shows. It is at least the margin, since the verdict on a smaller
    #: slowdown may be 'no effect' first.
    least_effects: tuple[float | None, float | None]
    #: Number of pairs that the verdict 'no effect' needs; None if it needs more pairs than are ever
    #: measured.
    pairs_for_none: int | None
    #: True if origin and target share a host.
    one_host: bool

    @property
    def line(self) -> str:
        """Return the reach in one line, without the name of the case."""
        pairs_by_effect: dict[float, int] = {}
        for pairs, effect in zip(self.pairs, self.least_effects, strict=True):
            if effect is not None:
                pairs_by_effect.setdefault(effect, pairs)
        effects = ", ".join(
            f"by {percentage(effect, '.2g')} in {pairs} pairs"
            for effect, pairs in pairs_by_effect.items()
        )
        _, cap = self.pairs
        slower = f"slower {effects}" if effects else f"no slowdown in {cap} pairs"
        needed = self.pairs_for_none
        beyond = "" if needed and needed <= cap else ", beyond the cap"
        return (
            f"{slower}; 'no effect' in {needed or 'thousands of'} pairs{beyond};"
            f" spread {percentage(self.spread, '.2g')}"
        )


def reaches_of(planned: Plan, campaign: Campaign, past: PastRuns) -> list[Reach]:
    """Return the reach of each case that ends in a verdict.

    Two kinds of cases have no verdict: cases without writes, and sweeps, from which a model is
    made.
    """
    swept = {entry.name for entry in campaign.cases if entry.sweep}
    case_treatments = [
        (case.case, treatment.name) for case in planned.cases for treatment in case.treatments
    ]
    effects = [(case, name) for case, name in case_treatments if not arm_of(name).silent]
    with_effects = {case for case, _ in effects}
    family = len(hypotheses(effects))
    spread_by_case = {entry.name: past.spread_of(entry) for entry in campaign.cases}
    return [
        _case_reach(case, family, campaign.margin, spread_by_case[case.case])
        for case in planned.cases
        if case.case in with_effects and case.case not in swept
    ]


def _case_reach(case: Case, family: int, margin: float, spread: Spread) -> Reach:
    pairs = (case.pairs_least, case.pairs_most)
    roles: list[str] = sorted({treatment.role for treatment in case.treatments})
    share_after = _share_after_writes(case)
    controlled = "control" in roles
    least_losses = (
        min_loss(pair_count, family, share_after, controlled=controlled) for pair_count in pairs
    )
    least_at_floor, least_at_cap = (
        None if loss is None else max(math.expm1(loss * spread.share), margin)
        for loss in least_losses
    )
    pairs_for_none = pairs_for_no_effect(math.log1p(margin) / spread.share, family, share_after)
    return Reach(
        case=case.case,
        spread=spread.share,
        spread_run=spread.run,
        family=family,
        roles=roles,
        pairs=pairs,
        least_effects=(least_at_floor, least_at_cap),
        pairs_for_none=pairs_for_none,
        one_host=not case.origin_nodes,
    )


def _share_after_writes(case: Case) -> float:
    """Return the share of a baseline's runs that come right after a run with writes.

    If the case has several baselines, their largest share is returned.
    """
    groups = grouped(
        (treatment.baseline or treatment.name, treatment.role == "effect")
        for treatment in case.treatments
    )
    return max(share_after_writes(len(group), sum(group)) for group in groups.values())


def lines(reaches: Iterable[Reach]) -> list[str]:
    """Return a line for each different reach, with the cases that have this reach."""
    cases_by_line = grouped((case_reach.line, case_reach.case) for case_reach in reaches)
    return [f"{first_names(cases, _MAX_NAMES)}: {line}" for line, cases in cases_by_line.items()]


def spread_sources(reaches: Iterable[Reach]) -> Iterator[str]:
    """Yield a sentence for each campaign run with spreads, and one for assumed spreads."""
    cases_by_run = grouped((case_reach.spread_run, case_reach.case) for case_reach in reaches)
    for run, cases in cases_by_run.items():
        names = first_names(cases, _MAX_NAMES)
        if run is None:
            yield (
                f"A spread of {percentage(_DEFAULT_SPREAD)} is assumed, since no run here repeated"
                f" the baseline {MIN_VALUES} times: {names}."
            )
        else:
            yield f"Spread of single runs in {run}: {names}."


def warnings(reaches: Sequence[Reach]) -> Iterator[str]:
    """Yield a warning for each reason why cases can have no verdict or can show no slowdown."""
    without_aa = [case_reach.case for case_reach in reaches if "floor" not in case_reach.roles]
    if without_aa:
        names = first_names(without_aa, _MAX_NAMES)
        yield f"{names}: no verdict, since no arm aa repeats the baseline"
    uncontrolled = [
        case_reach.case
        for case_reach in reaches
        if case_reach.one_host and "control" not in case_reach.roles
    ]
    if uncontrolled:
        names = first_names(uncontrolled, _MAX_NAMES)
        yield (
            f"{names}: a loss ends as 'control missing', since origin and"
            " target share a host: add spin to arms"
        )
    too_few_pairs = [case_reach for case_reach in reaches if case_reach.least_effects[-1] is None]
    if too_few_pairs:
        family, (_, cap) = too_few_pairs[0].family, too_few_pairs[0].pairs
        controlled = "control" in too_few_pairs[0].roles
        enough_pairs = next(
            interim.pairs
            for interim in interim_analyses(_ENOUGH_PAIRS)
            if min_loss(interim.pairs, family, controlled=controlled) is not None
        )
        names = first_names([case_reach.case for case_reach in too_few_pairs], _MAX_NAMES)
        yield (
            f"{names}: {cap} pairs show no effect of any size among {plural(family, 'question')}:"
            f" raise pairs.cap to {enough_pairs}"
        )
