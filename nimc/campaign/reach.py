"""The reach of a planned campaign: the smallest effects, and the pairs of 'no effect'."""

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
from records.units import plural

if TYPE_CHECKING:
    import polars as pl

#: Spread of runs if no run of the machine has one.
_DEFAULT_SPREAD = 0.01
#: The latest runs of the machine, so many, are read for its spreads.
_MOST_RUNS = 10
#: Names of cases in a line.
_MOST_NAMES = 6
#: So many pairs show a large effect in any campaign.
_MOST_PAIRS = 96


@dataclass(frozen=True)
class Spreads:
    """The spread of a machine's single runs within their pairs, and the run that showed it."""

    run: str | None = None
    spread_by_case: dict[str, float] = field(default_factory=dict)
    #: How allocations differ, by the last run that has several; None without one.
    variation: Variation | None = None

    def spread_of(self, case: str) -> float:
        """Return the spread of a case, else the median of all measured cases, else 1 %."""
        spreads = self.spread_by_case.values() or [_DEFAULT_SPREAD]
        return self.spread_by_case.get(case) or median(spreads)

    @property
    def source(self) -> str:
        """Return where the spreads come from."""
        return f"of {self.run}" if self.run else "of 1 %, as no run here repeated its baseline"


def last_spreads(results: Path, machine: str) -> Spreads:
    """Spreads of the machine's last run with repeated baselines (A/A)."""
    machine_runs = [run for run in own_runs(results) if run[1].machine == machine]
    latest = Spreads()
    for path, _ in sorted(machine_runs, key=lambda run: run[1].started_s, reverse=True)[
        :_MOST_RUNS
    ]:
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
    # Loads polars, which takes 0.2 s, and a new machine has no run.
    from analysis.samples.columns import read_run
    from analysis.samples.pairs import judge_samples, pair_table

    return pair_table(judge_samples(read_run(run).frame))


def spreads(pairs: pl.DataFrame) -> dict[str, float]:
    """Case -> standard deviation of the logarithm of a run's time, from its A/A pairs."""
    import polars as pl

    floors = [arm for arm in pairs["arm"].cast(pl.String).unique() if arm_of(arm).role == "floor"]
    repeated = pairs.filter(pl.col("arm").cast(pl.String).is_in(floors))
    rows = repeated.group_by(pl.col("case").cast(pl.String)).agg(
        spread=pl.col("ratio").log().std() / math.sqrt(2), pairs=pl.len()
    )
    return dict(rows.filter(pl.col("pairs") >= MIN_VALUES).select("case", "spread").iter_rows())


@dataclass(frozen=True, kw_only=True)
class Reach:
    """The effects that one case shows in 90 % of runs at least."""

    case: str
    spread: float
    #: Questions of the campaign, over which its verdicts hold, and roles of its treatments.
    family: int
    roles: list[str]
    #: Its floor and cap, and the smallest slowdown, less 1, that so many pairs show; None: they
    #: show none. At least the margin: a case whose loss is smaller may end with 'no effect' first.
    pairs: tuple[int, int]
    least_effects: tuple[float | None, float | None]
    #: Pairs of 'no effect'; None: more than are ever measured.
    pairs_for_none: int | None
    #: Origin and target share a host.
    one_host: bool

    @property
    def text(self) -> str:
        """Return the reach in one line, without the case."""
        pairs_by_effect: dict[float, int] = {}
        for pairs, effect in zip(self.pairs, self.least_effects, strict=True):
            if effect is not None:
                pairs_by_effect.setdefault(effect, pairs)
        effects = ", ".join(
            f"by {100 * effect:.2g} % in {pairs} pairs" for effect, pairs in pairs_by_effect.items()
        )
        slower = f"slower {effects}" if effects else f"no slowdown in {self.pairs[1]} pairs"
        none = self.pairs_for_none
        beyond = "" if none and none <= self.pairs[1] else ", beyond the cap"
        return (
            f"{slower}; 'no effect' in {none or 'thousands of'} pairs{beyond};"
            f" spread {100 * self.spread:.2g} %"
        )


def reach(planned: Plan, campaign: Campaign, spread: Spreads) -> list[Reach]:
    """Return the reach of each case that ends in a verdict.

    A case without effects has no verdict, and a sweep ends in a model.
    """
    swept = {entry.name for entry in campaign.cases if entry.sweep}
    case_treatments = [
        (case.case, treatment.name) for case in planned.cases for treatment in case.treatments
    ]
    effects = [effect for effect in case_treatments if not arm_of(effect[1]).silent]
    measured = {case for case, _ in effects}
    family = len(hypotheses(effects))
    return [
        _case_reach(case, family, campaign.margin, spread.spread_of(case.case))
        for case in planned.cases
        if case.case in measured and case.case not in swept
    ]


def _case_reach(case: Case, family: int, margin: float, spread: float) -> Reach:
    pairs = (case.pairs_least, case.pairs_most)
    roles: list[str] = sorted({treatment.role for treatment in case.treatments})
    after = _after_writes(case)
    least_losses = (
        min_loss(number, family, after, controlled="control" in roles) for number in pairs
    )
    floor, cap = (
        None if loss is None else max(math.expm1(loss * spread), margin) for loss in least_losses
    )
    none = pairs_for_no_effect(math.log1p(margin) / spread, family, after)
    return Reach(
        case=case.case,
        spread=spread,
        family=family,
        roles=roles,
        pairs=pairs,
        least_effects=(floor, cap),
        pairs_for_none=none,
        one_host=not case.origin_nodes,
    )


def _after_writes(case: Case) -> float:
    """The largest share of a baseline's runs that come right after writes."""
    groups = grouped(
        (treatment.baseline or treatment.name, treatment.role == "effect")
        for treatment in case.treatments
    )
    return max(share_after_writes(len(group), sum(group)) for group in groups.values())


def lines(reached: Iterable[Reach]) -> list[str]:
    """Return a line for each reach, with the cases that have it."""
    cases_by_text = grouped((row.text, row.case) for row in reached)
    return [f"{first_names(cases, _MOST_NAMES)}: {text}" for text, cases in cases_by_text.items()]


def warnings(reached: Sequence[Reach]) -> Iterator[str]:
    """A line for the cases that can never have a verdict, or name no loss."""
    without_aa = [row.case for row in reached if "floor" not in row.roles]
    if without_aa:
        names = first_names(without_aa, _MOST_NAMES)
        yield f"{names}: no verdict, as the arm aa does not repeat the baseline"
    uncontrolled = [row.case for row in reached if row.one_host and "control" not in row.roles]
    if uncontrolled:
        names = first_names(uncontrolled, _MOST_NAMES)
        yield (
            f"{names}: a loss ends as 'control missing', as origin and"
            " target share a host: add spin to arms"
        )
    effectless = [row for row in reached if row.least_effects[1] is None]
    if effectless:
        family = effectless[0].family
        controlled = "control" in effectless[0].roles
        enough_pairs = next(
            interim.pairs
            for interim in interim_analyses(_MOST_PAIRS)
            if min_loss(interim.pairs, family, controlled=controlled) is not None
        )
        names = first_names([row.case for row in effectless], _MOST_NAMES)
        yield (
            f"{names}: {effectless[0].pairs[1]} pairs"
            f" show no effect of any size among {plural(family, 'question')}: raise pairs.cap to"
            f" {enough_pairs}"
        )
