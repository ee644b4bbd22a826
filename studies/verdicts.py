"""What verdicts are worth, simulated: the tables of docs/evidence.md.

    python -m studies.verdicts [NIGHTS]

Every figure comes from NIGHTS (default 2000) nights with fixed seeds, each of one case with `on`,
`off` and `aa` between two hosts, unless its table says more. A night that stops looks after every
pair, from 6 to 40, and ends when its verdict is one that more pairs need not change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.effects.verdict import LEVELS, Verdict, judge
from analysis.statistics import e_values
from analysis.statistics.aligned_ranks import next_allocation, shifts
from analysis.statistics.e_values import over_family
from analysis.statistics.interval import CONFIDENCE, FEWEST, Estimate
from studies import head, row, show
from studies.noises import NOISES, Draws, RunNoise, nights

NIGHTS = 2000
MARGIN = 0.02
PAIRS = (6, 10, 20, 40)
MOST_PAIRS = 40
#: Coefficient of variation of one run, and the effect to be found.
EFFECTS = ((0.01, 1.02), (0.03, 1.5))
#: Shares of runs that are hit, and how much longer they take; noise of 1 %.
TAILS = ((0.05, 0.5), (0.1, 0.5), (0.2, 0.5), (0.01, 3.0))
#: Cases of a campaign, and effects of each.
CASES, RATES = 20, 5
#: Standard deviations between allocations, and how many are measured, of `_PAIRS_A_BLOCK` each.
SPREADS = (0.005, 0.01, 0.02)
BLOCKS = (3, 5, 8)
_PAIRS_A_BLOCK = 6
_WRONG = (Verdict.CONTENTION, Verdict.SOMETIMES, Verdict.SPEED_UP)


@dataclass(frozen=True)
class Look:
    """Estimates and verdicts of nights after some pairs; low end, estimate, high end, (3, n)."""

    typical: Draws
    mean: Draws
    verdicts: list[Verdict]


def look(log_times: Draws, family: int = 1) -> Look:
    """What nights with `log_times`, shape (nights, pairs, 3), say."""
    log_times = log_times - np.median(log_times[..., 1:], axis=(-2, -1))[:, None, None]
    typical, again = np.exp(shifts(log_times)), np.exp(shifts(log_times[..., [2, 1]]))
    mean, seen = e_values.mean_ratios(log_times), evidence(log_times)
    shown = {name: values >= family / LEVELS.get(name, 0.05) for name, values in seen.items()}
    verdicts = [
        judge(
            _estimate(typical[:, night]),
            _estimate(mean[:, night]),
            _estimate(again[:, night]),
            {name for name, each in shown.items() if each[night]},
            controlled=False,
            pairs=FEWEST,
            pairs_floor=FEWEST,
            precise=True,
            wrote=True,
            same_host=False,
            emulated=False,
        )
        for night in range(len(log_times))
    ]
    return Look(typical, mean, verdicts)


def evidence(log_times: Draws) -> dict[str, Draws]:
    """The e-values of `analysis.effects.verdict.Evidence`, each of shape (nights,)."""
    on, off, aa = np.moveaxis(log_times, -1, 0)
    most = np.log1p(MARGIN)

    def longer(apart: Draws) -> Draws:
        return np.asarray(e_values.signs(apart)[..., -1])

    def typical(side: int, shift: float) -> Draws:
        return (longer(side * (on - off) - shift) + longer(side * (on - aa) - shift)) / 2

    within = np.minimum(typical(-1, -most), typical(1, -most))
    means = [
        np.array([beyond(night, ratio) for night in log_times])
        for beyond, ratio in (
            (e_values.mean_longer, 1.0),
            (e_values.mean_shorter, 1 + MARGIN),
            (e_values.mean_longer, 1 / (1 + MARGIN)),
        )
    ]
    return {
        "slower": typical(1, 0.0),
        "above_control": np.zeros(len(log_times)),
        "faster": typical(-1, 0.0),
        "mean_slower": means[0],
        "typical_within": within,
        "within": np.minimum(within, np.minimum(means[1], means[2])),
        "unstable": (longer(aa - off) + longer(off - aa)) / 2,
    }


def _estimate(ends: Draws) -> Estimate:
    low, value, high = (float(end) for end in ends)
    return Estimate(value, low, high, CONFIDENCE)


@dataclass(frozen=True)
class Outcome:
    """What nights have come to; shares of nights."""

    #: Intervals of the typical run and of the mean that enclose the truth.
    covers: float
    covers_mean: float
    verdicts: dict[Verdict, float]
    #: Pairs a night has used, in the mean, and in nine of ten nights at most.
    pairs: float
    pairs_most: float

    def wrong(self) -> float:
        """Verdicts that name an effect, whatever it is."""
        return sum(self.verdicts.get(each, 0.0) for each in _WRONG)


def fixed(drawn: Draws, truth: float, mean: float | None = None) -> Outcome:
    """Nights of a fixed number of pairs, with a true slowdown and a true ratio of means."""
    return _outcome([(drawn.shape[1], look(drawn))], truth, mean or truth)


def stopped(drawn: Draws, truth: float) -> Outcome:
    """Nights that stop when they are decided; `drawn` holds the most pairs that they may use."""
    left, most, found = np.arange(len(drawn)), drawn.shape[1], []
    for pairs in range(FEWEST, most + 1):
        seen = look(drawn[left, :pairs])
        ends = np.array([pairs == most or not each.needs_pairs for each in seen.verdicts])
        verdicts = [each for each, end in zip(seen.verdicts, ends, strict=True) if end]
        found.append((pairs, Look(seen.typical[:, ends], seen.mean[:, ends], verdicts)))
        left = left[~ends]
        if not len(left):
            break
    return _outcome(found, truth, truth)


def _outcome(looks: Sequence[tuple[int, Look]], truth: float, mean: float) -> Outcome:
    pairs = np.concatenate([[n] * len(each.verdicts) for n, each in looks])
    counts = Counter(verdict for _, each in looks for verdict in each.verdicts)
    shares = {
        of: float(((ends[0] <= true) & (true <= ends[2])).mean())
        for of, true in (("typical", truth), ("mean", mean))
        for ends in [np.concatenate([getattr(each, of) for _, each in looks], axis=1)]
    }
    return Outcome(
        shares["typical"],
        shares["mean"],
        {verdict: times / len(pairs) for verdict, times in counts.items()},
        float(pairs.mean()),
        float(np.quantile(pairs, 0.9)),
    )


def hit(share: float, by: float, count: int, pairs: int) -> Draws:
    """Nights with noise of 1 % in which a share of the runs with writes takes `by` longer."""
    rng = np.random.default_rng(pairs)
    drawn = nights(NOISES[0], rng, count, pairs, 0.01, 1.0)
    drawn[..., 0] += np.log1p(by * (rng.random((count, pairs)) < share))
    return drawn


def false_campaigns(noise: RunNoise, count: int) -> float:
    """Share of campaigns of 100 effects of nothing in which any is ever said to be one.

    20 cases with five rates each; looks after every pair from 6 to 40.
    """
    wrong = 0
    for seed in range(count):
        rng = np.random.default_rng(seed)
        runs = noise.draw(rng, (CASES, MOST_PAIRS * (RATES + 2)))
        runs = rng.permuted(runs.reshape(CASES, MOST_PAIRS, RATES + 2), axis=-1)
        runs[..., 2:] *= noise.treated
        times = np.log(np.maximum(1 + 0.01 * runs, 0.1))
        effects = np.stack([times[..., [2 + rate, 0, 1]] for rate in range(RATES)], axis=1)
        wrong += _ever_wrong(effects.reshape(-1, MOST_PAIRS, 3))
    return wrong / count


def _ever_wrong(log_times: Draws) -> bool:
    """Whether any of a family of effects is named at any look."""
    on, off, aa = np.moveaxis(log_times, -1, 0)
    paths = {
        "slower": (e_values.signs(on - off) + e_values.signs(on - aa)) / 2,
        "faster": (e_values.signs(off - on) + e_values.signs(aa - on)) / 2,
    }
    paths["mean_slower"] = np.stack(
        [
            [e_values.mean_longer(night[:pairs]) for night in log_times]
            for pairs in range(FEWEST, log_times.shape[1] + 1, 2)
        ],
        axis=1,
    )
    return any(
        max(over_family(looks.tolist(), len(looks))) >= 1 / LEVELS[name]
        for name, path in paths.items()
        for looks in path[:, 5 * (name != "mean_slower") :].T
    )


def covers_next(spread: float, blocks: int, count: int) -> float:
    """Share of nights whose interval covers the next allocation's slowdown."""
    rng = np.random.default_rng(blocks)
    hits = 0
    for _ in range(count):
        own = rng.normal(0, spread, blocks + 1)
        drawn = nights(NOISES[0], rng, blocks, _PAIRS_A_BLOCK, 0.01, 1.0)
        drawn[..., 0] += own[:-1, None]
        low, high = next_allocation(list(drawn)) or (np.nan, np.nan)
        hits += bool(low <= np.exp(own[-1]) <= high)
    return hits / count


def _drawn(noise: RunNoise, count: int, pairs: int, scale: float, effect: float) -> Draws:
    return nights(noise, np.random.default_rng(pairs), count, pairs, scale, effect)


def tables(count: int) -> Iterator[str]:
    """The lines of all tables, as Markdown."""
    columns = [f"{pairs} pairs" for pairs in PAIRS]
    yield from head(["1 % noise; covered: typical, mean", *columns, "stopped"])
    kept = {}
    for noise in NOISES:
        found = [fixed(_drawn(noise, count, pairs, 0.01, 1.0), 1.0) for pairs in PAIRS]
        kept[noise] = [*found, stopped(_drawn(noise, count, MOST_PAIRS, 0.01, 1.0), 1.0)]
        covered = [f"{each.covers:.3f}, {each.covers_mean:.3f}" for each in kept[noise]]
        yield row([noise.name, *covered])
    yield from head(["1 % noise; an effect of nothing is named", *columns, "stopped"])
    for noise in NOISES:
        yield row([noise.name, *(f"{each.wrong():.4f}" for each in kept[noise])])
    titles = [f"{scale:.0%} noise, {effect}" for scale, effect in EFFECTS]
    yield from head(["slower, pairs used, nine of ten use at most; covered", *titles])
    for noise in NOISES:
        cells = []
        for scale, effect in EFFECTS:
            each = stopped(_drawn(noise, count, MOST_PAIRS, scale, effect), effect)
            share = each.verdicts.get(Verdict.CONTENTION, 0.0)
            cells.append(f"{share:.3f}, {each.pairs:.1f}, {each.pairs_most:.0f}; {each.covers:.3f}")
        yield row([noise.name, *cells])
    yield from _tails(count)
    yield from head(["100 effects of nothing", "campaigns that ever name any"])
    for noise in NOISES:
        yield row([noise.name, f"{false_campaigns(noise, count // 10):.3f}"])
    yield from head(["spread of allocations", *(f"{blocks} allocations" for blocks in BLOCKS)])
    for spread in SPREADS:
        shares = [covers_next(spread, blocks, count) for blocks in BLOCKS]
        yield row([f"{spread:.1%}", *(f"{share:.3f}" for share in shares)])


def _tails(count: int) -> Iterator[str]:
    of = (Verdict.NO_EFFECT, Verdict.TYPICAL, Verdict.SOMETIMES, Verdict.CONTENTION)
    columns = ["20 pairs", "40 pairs", "160 pairs"]
    title = "no effect, none on the typical run, sometimes slower, slower; mean covered"
    yield from head(["runs hit; mean loss", *(f"{column}: {title}" for column in columns)])
    for share, by in TAILS:
        cells = []
        for pairs in (20, 40, 160):
            found = fixed(hit(share, by, count, pairs), 1.0, 1 + share * by)
            shares = ", ".join(f"{found.verdicts.get(each, 0.0):.3f}" for each in of)
            cells.append(f"{shares}; {found.covers_mean:.3f}")
        yield row([f"{share:.0%} by {by:.0%}; {share * by:.1%}", *cells])


if __name__ == "__main__":
    show(tables, NIGHTS)
