"""Whether one rank suffers more than the others, from the growth of its counts in each pair.

If all ranks suffer alike, each is equally likely to have grown most in a pair. The number of pairs
in which a given one of R ranks grew most is then binomial with probability 1/R; the rank for which
it is largest was chosen from R, so its p value is R times as large. No distribution of the counts
is assumed; pairs must be independent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from scipy import special


@dataclass(frozen=True)
class WorstRank:
    """The rank that grew most in most pairs."""

    rank: int
    #: Median over pairs of its growth, and of the median rank's growth, in the same unit.
    growth: float
    median_growth: float
    #: Pairs in which it grew most, of those in which one rank grew most.
    times: int
    pairs: int
    #: At most the chance of so many pairs if all ranks suffer alike.
    p: float


def worst_rank(growths: Sequence[Mapping[int, float]]) -> WorstRank | None:
    """The worst rank of pairs, each a mapping of rank to growth (count on / count off).

    Pairs in which several ranks grew most say nothing and are left out. None without at least two
    ranks, the same in all pairs, and a pair that is left.
    """
    if not growths or len(growths[0]) < 2:
        return None
    ranks = set(growths[0])
    if any(set(pair) != ranks for pair in growths):
        return None
    first: Counter[int] = Counter()
    for pair in growths:
        most = max(pair.values())
        leaders = [rank for rank, growth in pair.items() if growth == most]
        if len(leaders) == 1:
            first[leaders[0]] += 1
    if not first:
        return None
    times = max(first.values())
    rank = min(rank for rank, count in first.items() if count == times)
    pairs = first.total()
    return WorstRank(
        rank,
        growth=median(pair[rank] for pair in growths),
        median_growth=median(median(pair.values()) for pair in growths),
        times=times,
        pairs=pairs,
        p=min(1.0, len(ranks) * float(special.bdtrc(times - 1, pairs, 1 / len(ranks)))),
    )
