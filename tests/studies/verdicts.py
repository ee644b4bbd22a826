"""What verdicts are worth, simulated: the table of docs/evidence.md.

    python -m tests.studies.verdicts [NIGHTS]

A night is one case with `on`, `off` and `aa` between two hosts, looked at after 6, 8, 12, 16, 24,
32 and 48 pairs. It is judged by the program's tests and its verdict, over a family of one, ten or a
hundred cases, all others of which show nothing. Wrong verdicts are those of NIGHTS (default
100,000) nights; the other figures are of a hundredth of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy import special

from analysis.effects.result import Result, Verdict
from analysis.effects.verdict import LEVELS, UNSTABLE_LEVEL, judge
from analysis.statistics import looks
from analysis.statistics.aligned_ranks import next_allocation, shifts
from analysis.statistics.interval import FEWEST, Estimate, Interval
from tests.studies import FRESH, head, row, show
from tests.studies.noises import NOISES, Draws, RunNoise, nights

#: Of the typical run, the mean, and the repeated baseline.
Estimates = tuple[Estimate | None, Estimate | None, Estimate | None]
NIGHTS = 100_000
#: Wrong verdicts are rare, and cost little: of so many nights the other figures are of one.
FEW = 100
#: Nights drawn at once.
AT_ONCE = 20_000
MARGIN = 0.02
FAMILIES = (1, 10, 100)
LOOKS = [look.pairs for look in looks.looks(48)]
#: Share of the runs with writes that are hit, and how much longer they take; noise of 1 %.
HITS = ((0.05, 0.5), (0.1, 0.5), (0.2, 0.5))
#: Allocations of six pairs, after which the next one is foretold.
BLOCKS = (3, 5, 8)
#: A case with proven writes between two hosts, without figures.
_ROW = Result(
    case="made",
    workload="made",
    arm="on",
    role="effect",
    baseline="off",
    pairs=0,
    rejected=0,
    off_median=None,
    on_median=None,
    unit="s",
    better="lower",
    slowdown=None,
    noise_floor=None,
    control=None,
    writer_rate_alone_b_s=1e9,
    writer_rate_b_s=1e9,
    verdict=Verdict.INCONCLUSIVE,
    rejections=[],
    notes=[],
    margin=MARGIN,
)
#: The exact test is made of rank sums that the normal one nearly shows: so many deviations less.
_SAFE = 0.5


def longer(log_times: Draws, ratio: float = 1.0) -> Draws:
    """P values of `looks.longer` of each night at each look, from the looks so far."""
    p = np.ones((len(log_times), len(LOOKS)))
    for place, look in enumerate(looks.looks(LOOKS[-1])):
        part = log_times[:, : look.pairs]
        # From less, no look shows anything; what is shown of a hundred cases stays so.
        least_z = special.ndtri(1 - look.share * max(LEVELS.values())) - _SAFE
        is_open = p.min(1) > min(LEVELS.values()) / FAMILIES[-1]
        for night in np.flatnonzero(is_open & (_rank_sums(part, ratio) > least_z)):
            p[night, place] = min(1.0, looks.longer(part[night], ratio) / look.share)
    return np.minimum.accumulate(p, axis=1)


def shorter(log_times: Draws, ratio: float = 1.0) -> Draws:
    """The same of `looks.shorter`."""
    return longer(-log_times, 1 / ratio)


def within(log_times: Draws, margin: float = MARGIN) -> Draws:
    """The same of `looks.outside`."""
    p = shorter(log_times, 1 + margin)
    near = p[:, -1] <= max(LEVELS.values())
    p[near] = np.maximum(p[near], longer(log_times[near], 1 / (1 + margin)))
    return p


def _rank_sums(log_times: Draws, ratio: float) -> Draws:
    """The treated runs' sums of aligned ranks, in standard deviations."""
    aligned = log_times.copy()
    aligned[..., 0] -= np.log(ratio)
    aligned -= aligned.mean(-1, keepdims=True)
    flat = aligned.reshape(len(aligned), log_times.shape[1] * log_times.shape[2])
    ranks = flat.argsort(1).argsort(1).reshape(aligned.shape).astype(float)
    scores = ranks - ranks.mean(-1, keepdims=True)
    return np.asarray(scores[..., 0].sum(1) / np.sqrt((scores**2).mean(-1).sum(1)))


@dataclass(frozen=True)
class Nights:
    """Nights of `log_times` (nights, pairs, 3), and what their tests and verdicts are."""

    log_times: Draws
    #: Night and pairs -> estimates, which take long.
    _estimates: dict[tuple[int, int], Estimates] = field(default_factory=dict)

    @cached_property
    def p(self) -> dict[str, Draws]:
        """Statement -> p values at each look."""
        times, repeated = self.log_times, self.log_times[..., [2, 1]]
        return {
            "slower": longer(times),
            "faster": shorter(times),
            "within": within(times),
            "unstable": np.minimum(1, 2 * np.minimum(longer(repeated), shorter(repeated))),
        }

    def estimates(self, of: Iterable[int], pairs: int) -> list[Estimates]:
        """Estimates of some nights, from their first pairs."""
        asked = list(of)
        new = [night for night in asked if (night, pairs) not in self._estimates]
        if new:
            times = self.log_times[new, :pairs]
            typical, repeated = (np.exp(shifts(of)) for of in (times, times[..., [2, 1]]))
            for place, night in enumerate(new):
                self._estimates[night, pairs] = (
                    _estimate(typical[:, place]),
                    looks.mean_ratio(times[place]),
                    _estimate(repeated[:, place]),
                )
        return [self._estimates[night, pairs] for night in asked]

    def verdicts(self, family: int) -> tuple[list[Verdict], Draws]:
        """The verdict of each night when it is decided, and its pairs then; 48 if it is not."""
        levels = {**LEVELS, "unstable": UNSTABLE_LEVEL}
        shown = {name: p <= levels[name] / family for name, p in self.p.items()}
        verdicts = [Verdict.INCONCLUSIVE] * len(self.log_times)
        pairs = np.full(len(verdicts), float(LOOKS[-1]))
        for place, look in enumerate(LOOKS):
            any_shown = np.any([at_looks[:, place] for at_looks in shown.values()], axis=0)
            left = [
                night
                for night in np.flatnonzero(any_shown).tolist()
                if verdicts[night] is Verdict.INCONCLUSIVE
            ]
            for night, of_night in zip(left, self.estimates(left, look), strict=True):
                names = {name for name, at_looks in shown.items() if at_looks[night, place]}
                verdict = _verdict(of_night, look, names)
                if not verdict.needs_pairs:
                    verdicts[night], pairs[night] = verdict, look
        return verdicts, pairs


def _estimate(low_value_high: Draws) -> Estimate:
    low, value, high = low_value_high.tolist()
    return Estimate(value, low, high)


def _verdict(of: Estimates, pairs: int, shown: set[str]) -> Verdict:
    typical, mean, repeated = of
    row = replace(_ROW, slowdown=typical, mean=mean, noise_floor=Interval.of(repeated), pairs=pairs)
    return judge(row, shown, FEWEST)


def drawn(
    noise: RunNoise, count: int, scale: float = 0.01, effect: float = 1.0, part: int = 0
) -> Nights:
    """So many nights, with fixed seeds; other ones in each `part`."""
    settings = (NOISES.index(noise), round(1e4 * scale), round(1e4 * effect), part)
    rng = np.random.default_rng([FRESH, count, *settings])
    return Nights(nights(noise, rng, count, LOOKS[-1], scale, effect))


def least(test: Callable[[Draws], Draws], noise: RunNoise, count: int, effect: float) -> Draws:
    """The least p value of each of so many nights over its looks."""
    sizes = [min(AT_ONCE, count - start) for start in range(0, count, AT_ONCE)]
    parts = (drawn(noise, size, effect=effect, part=part) for part, size in enumerate(sizes))
    return np.concatenate([test(part.log_times)[:, -1] for part in parts])


def hit(share: float, by: float, count: int) -> Nights:
    """Nights with noise of 1 % in which a share of the runs with writes takes `by` longer."""
    times = drawn(NOISES[0], count).log_times.copy()
    hits = np.random.default_rng([FRESH, count]).random(times.shape[:2]) < share
    times[..., 0] += np.log1p(by * hits)
    return Nights(times)


def slower_or_faster(log_times: Draws) -> Draws:
    """P values of either at each look, in parts of their levels: shown if at most 1."""
    of_slower, of_faster = (
        longer(log_times) / LEVELS["slower"],
        shorter(log_times) / LEVELS["faster"],
    )
    return np.minimum(of_slower, of_faster)


def ever(p: Draws, level: float, family: int) -> float:
    """Share of campaigns of a family of such nights in which any of them is shown at any look."""
    return float((p <= level / family).reshape(-1, family).any(1).mean())


def power(at: Nights, family: int, verdict: Verdict) -> tuple[float, float]:
    """Share of nights that come to a verdict, and mean of the pairs that they use."""
    verdicts, pairs = at.verdicts(family)
    return verdicts.count(verdict) / len(verdicts), float(pairs.mean())


def fixed_pairs(at: Nights, family: int) -> int | None:
    """Fewest pairs of which a t test finds the effect in 90 %, at the same level; None up to 48."""
    apart = at.log_times[..., 0] - at.log_times[..., 1:].mean(-1)
    for pairs in range(2, LOOKS[-1] + 1):
        part = apart[:, :pairs]
        t = part.mean(1) / part.std(1, ddof=1) * np.sqrt(pairs)
        p = special.stdtr(pairs - 1, -t)
        if (p <= LEVELS["slower"] / family).mean() >= 0.9:
            return pairs
    return None


def coverage(at: Nights, pairs: int, mean: float = 1.0) -> tuple[float, float, float]:
    """Shares of intervals that enclose: of the typical run, the mean; whose mean's is too low."""
    covered = [
        (typical.low <= 1 <= typical.high, ratio.low <= mean <= ratio.high, ratio.high < mean)
        for typical, ratio, _ in at.estimates(range(len(at.log_times)), pairs)
        if typical and ratio
    ]
    covers, of_mean, too_low = np.mean(covered, axis=0)
    return float(covers), float(of_mean), float(too_low)


def covers_next(spread: float, blocks: int, count: int) -> float:
    """Share of nights of so many allocations whose interval covers the next one's slowdown."""
    rng = np.random.default_rng([FRESH, blocks, round(1e4 * spread)])
    hits = 0
    for _ in range(count):
        true = rng.normal(0, spread, blocks + 1)
        times = nights(NOISES[0], rng, blocks, FEWEST, 0.01, 1.0)
        times[..., 0] += true[:-1, None]
        low, high = next_allocation(list(times)) or (np.nan, np.nan)
        hits += bool(low <= np.exp(true[-1]) <= high)
    return hits / count


def _of_noise(noise: RunNoise, count: int) -> Iterator[str]:
    """The cells of a noise; those of families have three figures each."""
    few = count // FEW
    unchanged, small, large = (
        drawn(noise, few, *scale_and_effect)
        for scale_and_effect in ((0.01, 1.0), (0.01, 1.02), (0.03, 1.5))
    )
    covers = [coverage(unchanged, pairs) for pairs in (6, 12, 24)]
    yield "; ".join(", ".join(f"{shares[i]:.2f}" for shares in covers) for i in (0, 1))
    false = least(slower_or_faster, noise, count, 1.0)
    yield ", ".join(f"{ever(false, 1, family):.3f}" for family in FAMILIES)
    for at in (small, large):
        yield ", ".join("{:.2f} {:.1f}".format(*power(at, k, Verdict.SLOWER)) for k in FAMILIES)
        yield ", ".join(str(fixed_pairs(at, family) or "more") for family in FAMILIES)
    yield ", ".join(
        "{:.2f} {:.1f}".format(*power(unchanged, k, Verdict.NO_EFFECT)) for k in FAMILIES
    )
    wrong = least(within, noise, count, 1 + MARGIN)
    yield ", ".join(f"{ever(wrong, LEVELS['within'], family):.3f}" for family in FAMILIES)


def table(count: int) -> Iterator[str]:
    """The lines of the tables, as Markdown."""
    effects = ["1.02", "t", "1.5, at 3 %", "t"]
    yield from head(["noise", "covers", "false", *effects, "no effect", "wrong"])
    for noise in NOISES:
        yield row([noise.name, *_of_noise(noise, count)])
    yield from head(["runs hit; mean loss", "no effect", "slower", "mean's interval below it"])
    for share, by in HITS:
        at = hit(share, by, count // FEW)
        verdicts, _ = at.verdicts(10)
        said = [verdicts.count(verdict) for verdict in (Verdict.NO_EFFECT, Verdict.SLOWER)]
        _, _, below = coverage(at, 12, 1 + share * by)
        figures = (*(nights / len(verdicts) for nights in said), below)
        yield row([f"{share:.0%} by {by:.0%}; {share * by:.1%}", *(f"{x:.2f}" for x in figures)])
    yield from head(["spread of allocations", *(f"{blocks} of them" for blocks in BLOCKS)])
    for spread in (0.005, 0.02):
        covered = (covers_next(spread, blocks, count // FEW) for blocks in BLOCKS)
        yield row([f"{spread:.1%}", *(f"{share:.3f}" for share in covered)])


if __name__ == "__main__":
    show(table, NIGHTS)
