import numpy as np
import pytest
from scipy import stats

from analysis.statistics.correlation import worst_rank

RANKS, PAIRS, SEEDS = 8, 10, 200


def made(seed: int, worst: float = 1.0) -> list[dict[int, float]]:
    """Growths of the misses of 8 ranks in 10 pairs; rank 5 has `worst` times as many as others."""
    rng = np.random.default_rng(seed)
    return [
        {
            rank: float(common * (worst if rank == 5 else 1.0) * noise)
            for rank, noise in enumerate(np.exp(rng.normal(0, 0.1, RANKS)))
        }
        for common in np.exp(rng.normal(0.3, 0.2, PAIRS))
    ]


def test_a_rank_with_twice_the_misses_is_found_with_the_right_p_value():
    for seed in range(SEEDS):
        found = worst_rank(made(seed, worst=2.0))
        assert found.rank == 5
        assert found.growth / found.median_growth == pytest.approx(2.0, rel=0.25)
        # All ten pairs, by chance: 8 ranks x (1/8)^10. With one pair less: 8 x (1 + 10 x 7) / 8^10.
        by_hand = {10: 8 / 8**10, 9: 8 * 71 / 8**10}
        assert found.p == pytest.approx(by_hand[found.times])


def test_no_more_false_findings_than_stated():
    false = sum(worst_rank(made(seed)).p < 0.05 for seed in range(SEEDS))
    assert false <= stats.binom.ppf(0.999, SEEDS, 0.05)


def test_the_p_value_of_two_ranks_by_hand():
    # Rank 1 in 5 of 6 pairs: 2 x (6 + 1) / 64.
    pairs = [{0: 1.0, 1: 1.2}] * 5 + [{0: 1.3, 1: 1.2}]
    found = worst_rank(pairs)
    assert (found.rank, found.times, found.pairs) == (1, 5, 6)
    assert found.p == pytest.approx(14 / 64)
    assert (found.growth, found.median_growth) == pytest.approx((1.2, 1.1))


def test_a_pair_without_a_worst_rank_says_nothing():
    found = worst_rank([{0: 1.0, 1: 1.0}, {0: 1.0, 1: 2.0}])
    assert (found.times, found.pairs, found.p) == (1, 1, 1.0)


@pytest.mark.parametrize(
    "pairs", [[], [{0: 1.0}], [{0: 1.0, 1: 1.0}], [{0: 1.0, 1: 2.0}, {0: 1.0, 2: 2.0}]]
)
def test_nothing_to_compare(pairs):
    assert worst_rank(pairs) is None
