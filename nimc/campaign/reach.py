"""The reach of a planned campaign: which effects it can show, and how many pairs 'no effect' needs.

A *pair* is one run of each treatment. An *A/A pair* repeats the baseline, so its ratio shows how
well the baseline repeats. The *spread* is the standard deviation of the logarithm of a run's time.
The *margin* is the largest change that counts as 'no effect'. A *control* is a run with a process
that keeps the writers' cores busy and writes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from analysis.effects.power import min_loss, pairs_for_no_effect, share_after_writes
from analysis.effects.statements import hypotheses
from analysis.statistics.evidence import interim_analyses
from analysis.statistics.interval import MIN_VALUES
from nimc.campaign.allocations import Variation, variation
from nimc.campaign.plan import Case, Plan
from records.arms import arm_of
from records.campaign import Campaign
from records.errors import InputError
from records.groups import grouped
from records.run import own_runs
from records.text import first_names
from records.units import percentage, plural

if TYPE_CHECKING:
    import polars as pl

#: Spread that is assumed if no earlier run on the machine has A/A pairs.
_DEFAULT_SPREAD = 0.01
#: Number of the machine's latest campaign runs that are read to find spreads.
_MAX_RUNS = 10
#: Largest number of cases that a printed line names.
_MAX_NAMES = 6
#: Number of pairs with which a large effect shows, however many questions a campaign has.
_ENOUGH_PAIRS = 96


@dataclass(frozen=True)
class Spreads:
    """Spreads of the application's runs on a machine, and how its allocations differ.

    Both are measured in earlier runs of campaigns.
    """

    #: Folder of the campaign run in which the spreads were measured; None if there is none.
    run: str | None = None
    spread_by_case: dict[str, float] = field(default_factory=dict)
    #: Variation between allocations in the last campaign run with several allocations of a case;
    #: None if there is no such run.
    variation: Variation | None = None

    def spread_of(self, case: str) -> float:
        """Return the spread of a case.

        If it was not measured, return the median of the measured cases; if there are none, 1 %.
        """
        spreads = self.spread_by_case.values() or [_DEFAULT_SPREAD]
        return self.spread_by_case.get(case) or median(spreads)

    @property
    def source(self) -> str:
        """Return where the spreads come from."""
        return f"of {self.run}" if self.run else "of 1 %, since no run here repeated its baseline"


def last_spreads(results: Path, machine: str) -> Spreads:
    """Return the spreads in the machine's last campaign run with enough A/A pairs.

    The variation comes from its last campaign run in which a case has several allocations. Only the
    latest campaign runs are read.
    """
    started_s_by_path = {
        path: header.started_s for path, header in own_runs(results) if header.machine == machine
    }
    latest_first = sorted(started_s_by_path, key=lambda path: started_s_by_path[path], reverse=True)
    latest = Spreads()
    for path in latest_first[:_MAX_RUNS]:
        with suppress(InputError, OSError):
            pairs = _pairs_in(path)
            if not latest.run and (spread_by_case := spreads(pairs)):
                latest = replace(latest, run=str(path), spread_by_case=spread_by_case)
            if latest.variation is None:
                latest = replace(latest, variation=variation(pairs))
        if latest.run and latest.variation:
            break
    return latest


def _pairs_in(run: Path) -> pl.DataFrame:
    # Not at the top: the import of Polars takes 0.2 s and is not needed if there is no earlier run.
    from analysis.samples.columns import read_run
    from analysis.samples.pairs import judge_samples, pair_table

    return pair_table(judge_samples(read_run(run).frame))


def spreads(pairs: pl.DataFrame) -> dict[str, float]:
    """Return case -> spread of a run, from the A/A pairs of each case that has enough of them."""
    import polars as pl

    arms = pairs["arm"].cast(pl.String).unique()
    aa_arms = [arm for arm in arms if arm_of(arm).role == "floor"]
    aa_pairs = pairs.filter(pl.col("arm").cast(pl.String).is_in(aa_arms))
    case_spreads = (
        aa_pairs.group_by(pl.col("case").cast(pl.String))
        .agg(spread=pl.col("ratio").log().std() / math.sqrt(2), pairs=pl.len())
        .filter(pl.col("pairs") >= MIN_VALUES)
    )
    return dict(case_spreads.select("case", "spread").iter_rows())


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What one case can show: effects that at least 90 % of runs of the campaign would show."""

    case: str
    spread: float
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


def reaches_of(planned: Plan, campaign: Campaign, past_spreads: Spreads) -> list[Reach]:
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
    return [
        _case_reach(case, family, campaign.margin, past_spreads.spread_of(case.case))
        for case in planned.cases
        if case.case in with_effects and case.case not in swept
    ]


def _case_reach(case: Case, family: int, margin: float, spread: float) -> Reach:
    pairs = (case.pairs_least, case.pairs_most)
    roles: list[str] = sorted({treatment.role for treatment in case.treatments})
    share_after = _share_after_writes(case)
    controlled = "control" in roles
    least_losses = (
        min_loss(pair_count, family, share_after, controlled=controlled) for pair_count in pairs
    )
    least_at_floor, least_at_cap = (
        None if loss is None else max(math.expm1(loss * spread), margin) for loss in least_losses
    )
    pairs_for_none = pairs_for_no_effect(math.log1p(margin) / spread, family, share_after)
    return Reach(
        case=case.case,
        spread=spread,
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
