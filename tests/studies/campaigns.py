"""Compares what plans of this project's campaigns promise with simulations.

The result is a table of docs/evidence.md.

    python -m tests.studies.campaigns [NIGHTS]

Each kind of case of each campaign is planned on a machine, and simulated until it ends. The
simulation has normal noise of 1 %, and the order of treatments, blocks, floor, cap and precision of
the case. The other questions of the campaign show nothing. In NIGHTS (default 200) nights the arm
has the loss that the plan promises to find with the largest number of pairs (cap). In as many other
nights nothing has a loss. There, the case ends after the pairs with which the plan promises 'no
effect'.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.effects.result import Verdict
from nimc.campaign.plan import Case, block_sizes
from nimc.campaign.reach import PastRuns, Reach, reaches_of
from nimc.campaign.request import load_request
from records.campaign import Campaign
from records.checkout import ROOT
from records.order import pair_order
from records.run import MARGIN
from records.treatment import Treatment
from tests.studies import FRESH, head, row, show
from tests.studies.many import ManyNights
from tests.studies.noises import Draws

NIGHTS = 200
CAMPAIGNS = sorted(path.stem for path in (ROOT / "campaigns").glob("*.yaml"))
#: Campaigns that need several nodes, NUMA nodes or rails. They are not planned on one host.
ON_A_CLUSTER = {
    "core_reservation_scaling",
    "core_scaling_quick",
    "scaling",
    "scaling_quick",
    "scaling_rxe",
    "numa",
    "multirail",
    "multirail_quick",
}
_SPREAD = 0.01
#: Number of orders of treatments that are drawn. Nights use them in turn.
_ORDERS = 20


@dataclass(frozen=True)
class Kind:
    """Cases of a campaign that are measured in the same way. `case` is one of them."""

    campaign: Campaign
    case: Case
    reach: Reach

    @property
    def group(self) -> list[Treatment]:
        """Return an effect, its baseline, and their repeated baseline and control, if any."""
        treatments = self.case.treatments
        effect = next(item for item in treatments if item.role == "effect")
        beside = {
            item.role: item for item in self.case.treatments if item.baseline == effect.baseline
        }
        baseline = next(item for item in treatments if item.name == effect.baseline)
        rest = [beside[role] for role in ("floor", "control") if role in beside]
        return [effect, baseline, *rest]

    def after_writes(self, seed: int) -> Draws:
        """Return which baseline runs come right after a run with writes: 1 for these, else 0.

        There is a row for each pair, with a column for the baseline and the repeated baseline.
        """
        baselines = {item.name: item.baseline for item in self.case.treatments}
        roles = {item.name: item.role for item in self.case.treatments}
        names = [item.name for item in self.group[1:3]]
        rows: list[list[float]] = []
        for pairs in block_sizes(self.campaign.pairs):
            before = None
            for _ in range(pairs):
                after = {}
                for name in pair_order(baselines, seed, self.case.case, len(rows)):
                    after[name] = float(before == "effect")
                    before = roles[name]
                rows.append([after[name] for name in names])
        return np.array(rows)

    def share(self, wanted: Verdict, cap: int, loss: float, count: int) -> tuple[float, float]:
        """Simulate `count` nights in which the effect has a loss, given as a logarithm.

        Returns the share of nights that end with the verdict `wanted`, and the mean number of pairs
        of all nights.
        """
        rng = np.random.default_rng([FRESH, cap, self.reach.family, len(self.group)])
        times = rng.normal(0, _SPREAD, (count, cap, len(self.group)))
        times[..., 0] += loss
        orders = [self.after_writes(seed)[:cap] for seed in range(_ORDERS)]
        after = np.stack([orders[night % _ORDERS] for night in range(count)])
        many_nights = ManyNights(times, after, self.campaign.margin or MARGIN)
        precision = self.campaign.pairs.precision
        verdicts, pairs = many_nights.verdicts(self.reach.family, self.case.pairs_least, precision)
        return verdicts.count(wanted) / count, float(pairs.mean())


def kinds(name: str, machine: str) -> list[tuple[Kind, list[str]]]:
    """Return the kinds of cases of a campaign, each with the names of its cases."""
    request = load_request(ROOT / "campaigns" / f"{name}.yaml", machine)
    planned = request.plan()
    cases = {case.case: case for case in planned.cases}
    alike: dict[tuple[object, ...], tuple[Kind, list[str]]] = {}
    for case_reach in reaches_of(planned, request.campaign, PastRuns()):
        case = cases[case_reach.case]
        names = tuple((treatment.name, treatment.baseline) for treatment in case.treatments)
        kind = Kind(request.campaign, case, case_reach)
        alike.setdefault((case_reach.pairs, names), (kind, []))[1].append(case_reach.case)
    return list(alike.values())


def cells(kind: Kind, count: int) -> Iterator[str]:
    """Yield the plan's promise and what the simulation reaches, for 'slower', then 'no effect'."""
    cap, loss = kind.case.pairs_most, kind.reach.least_effects[1]
    if loss is None:
        yield from ("nothing", "")
    else:
        share, pairs = kind.share(Verdict.SLOWER, cap, math.log1p(loss), count)
        yield f"{100 * loss:.2g} % in {cap}"
        yield f"{share:.2f} in {pairs:.1f}"
    none = kind.reach.pairs_for_none
    if none is None or none > cap:
        yield from ("beyond the cap", "")
    else:
        none = max(none, kind.case.pairs_least)
        share, pairs = kind.share(Verdict.NO_EFFECT, none, 0.0, count)
        yield f"in {none}"
        yield f"{share:.2f} in {pairs:.1f}"


def table(count: int) -> Iterator[str]:
    """Yield the lines of the table, as Markdown."""
    promises = ["slower by", "reached", "'no effect'", "reached"]
    yield from head(["campaign", "machine", "cases", "questions", "runs a pair", *promises])
    for name in CAMPAIGNS:
        for machine in ("example_slurm", "localhost")[: 1 if name in ON_A_CLUSTER else 2]:
            for kind, cases in kinds(name, machine):
                beside = [str(kind.reach.family), str(len(kind.case.treatments))]
                yield row([name, machine, f"{len(cases)}", *beside, *cells(kind, count)])


if __name__ == "__main__":
    show(table, NIGHTS)
