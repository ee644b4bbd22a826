"""The record of an effect: its figures, and the verdict on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from analysis.statistics.interval import Estimate, Interval
from records.arms import Role
from records.run import MARGIN
from records.sample import Better, Level
from records.units import percentage


class Verdict(str, Enum):
    """The conclusion on an effect; its value is used in text and files."""

    TOO_FEW_PAIRS = "too few pairs"
    NO_WRITES = "no writes"
    NO_NOISE_FLOOR = "baseline not repeated"
    BASELINE_UNSTABLE = "baseline unstable"
    INCONCLUSIVE = "inconclusive"
    SPEED_UP = "speed-up"
    NO_EFFECT = "no effect"
    NO_CONTROL = "control missing"
    NOT_ABOVE_CONTROL = "not above the control"
    EMULATED = "slower under emulated writes"
    SLOWER = "slower under RDMA writes"
    CONTENTION = "memory contention"
    #: Verdicts of the rows that effects are compared with.
    NOISE_FLOOR = "baseline repeatability"
    CONTROL = "control"

    __str__ = str.__str__

    @property
    def is_undecided(self) -> bool:
        """Return whether the runs leave the effect undecided."""
        return self in (Verdict.TOO_FEW_PAIRS, Verdict.INCONCLUSIVE)

    @property
    def needs_pairs(self) -> bool:
        """Return whether more pairs are needed, since they may change the verdict."""
        return self.is_undecided or self is Verdict.NOT_ABOVE_CONTROL

    @property
    def is_loss(self) -> bool:
        """Return whether the typical run is shown to be slower because of the writes.

        A loss that the writers' busy cores alone may cause is excluded.
        """
        return self in (Verdict.EMULATED, Verdict.SLOWER, Verdict.CONTENTION)

    @property
    def allows_no_statement(self) -> bool:
        """Return whether the runs allow no statement on the effect, not even that there is none."""
        return self in (
            Verdict.TOO_FEW_PAIRS,
            Verdict.NO_WRITES,
            Verdict.NO_NOISE_FLOOR,
            Verdict.BASELINE_UNSTABLE,
        )


@dataclass(frozen=True)
class PValues:
    """P values of statements on one effect, over its interim analyses.

    They are not adjusted for other effects. The smaller a value, the surer its statement.
    """

    #: The typical run is slower than the baseline.
    slower: float
    #: The typical run is faster than the baseline.
    faster: float
    #: The typical run differs from the baseline by less than the margin.
    within: float
    #: The typical run is slower than the baseline and the control; None without a control.
    above_control: float | None
    #: The repeated baseline differs from the baseline.
    unstable: float


@dataclass(frozen=True, kw_only=True)
class Result:
    """The effect of one treatment on one case. Figures are in SI units, or None if unavailable."""

    #: Names of the case, its workload and the treatment.
    case: str
    workload: str
    arm: str
    #: Number of pairs that count, and of rejected runs of this treatment or its baseline.
    pairs: int
    rejected: int
    #: Medians of the figures of merit of the runs that count, baseline and treatment, in `unit`.
    off_median: float | None
    on_median: float | None
    unit: str
    #: Time under the treatment / time of the baseline. None below six pairs, like all estimates
    #: but `carry_over`, which needs three.
    slowdown: Estimate | None
    #: Baseline repeatability: interval of the repeated baseline against the baseline (off against
    #: off).
    noise_floor: Interval | None
    #: Interval of the control against the baseline.
    control: Interval | None
    #: Harmonic means of the writers' total rate, without an application and during its runs.
    writer_rate_alone_b_s: float | None
    writer_rate_b_s: float | None
    #: The verdict (docs/method.md#verdicts).
    verdict: Verdict
    #: `key`, `outcome` and `reason` of each rejected sample.
    rejections: list[dict[str, str]]
    #: Caveats to show with the figures.
    notes: list[str]
    #: The writers' direction (`records.sample.Direction`); None without writers.
    direction: str | None = None
    #: Role of the treatment; `floor` is the repeated baseline.
    role: Role
    #: Name of the treatment that this one is paired with.
    baseline: str
    #: Factor -> level.
    factors: dict[str, Level] = field(default_factory=dict)
    #: Whether a lower or a higher figure of merit is better. Ratios are formed so that above 1 is
    #: slower.
    better: Better
    #: True if the baseline is slower than the site file expects.
    slower_than_reference: bool = False
    #: 'No effect' means that the typical run changes by less than this share.
    margin: float = MARGIN
    #: True if processors took part in the writes.
    emulated: bool = False
    #: Standard deviation / mean of the figures of merit of the runs that count, baseline and
    #: treatment.
    off_spread: float | None = None
    on_spread: float | None = None
    #: The effect against the control, within pairs: time under the treatment / under the control.
    over_control: Estimate | None = None
    #: Prediction interval of the slowdown in one more allocation; None below three allocations.
    next: Interval | None = None
    #: The interval that is shown first: `next`, or the interval of the slowdown if there is none.
    interval: Interval | None = None
    #: Ratio of mean times: under the treatment / of the baseline. It determines the cost.
    mean: Estimate | None = None
    #: Share of treated runs that are slow outliers (`analysis.statistics.location.hit_share`).
    hit: Estimate | None = None
    #: Time of a baseline run right after writes / time of another baseline run of its pair.
    carry_over: Estimate | None = None
    #: P values, not adjusted for other effects. None unless the role is `effect` and there are at
    #: least six pairs.
    p: PValues | None = None
    #: Number of hypotheses of the campaign. The chance of a wrong verdict is bounded over all of
    #: them.
    family: int = 1

    @property
    def leading_estimate(self) -> Estimate | None:
        """The slowdown with the interval that is shown first; None if there is no slowdown."""
        if self.slowdown is None or self.next is None:
            return self.slowdown
        return Estimate(self.slowdown.value, self.next.low, self.next.high)

    @property
    def verdict_text(self) -> str:
        """The verdict as it is shown: `no effect: typical run within 2 %`.

        If writes were emulated, `no effect` and `speed-up` say so, too.
        """
        text = str(self.verdict)
        if self.verdict is Verdict.NO_EFFECT:
            text += f": typical run within {percentage(self.margin, '.3g')}"
        if self.emulated and self.verdict in (Verdict.NO_EFFECT, Verdict.SPEED_UP):
            text += ", under emulated writes"
        return text

    @property
    def cost(self) -> Estimate | None:
        """Additional node-hours for work that takes 100 node-hours without writes, from `mean`."""
        return self.mean.mapped(lambda ratio: 100 * (ratio - 1)) if self.mean else None

    @property
    def interval_exceeds_control(self) -> bool:
        """Return whether the interval of `over_control` is above 1.

        No verdict follows from it. It is not adjusted for the number of hypotheses of the
        campaign, as verdicts are.
        """
        return self.over_control is not None and self.over_control.low > 1
