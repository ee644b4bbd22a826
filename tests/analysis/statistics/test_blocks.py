from __future__ import annotations

import numpy as np
import pytest

from analysis.statistics.blocks import Scope, blocked_median, scope


def test_one_block_is_the_median_of_its_ratios() -> None:
    estimate = blocked_median([[1.1, 1.2, 1.3, 1.4, 1.5, 1.6]])
    assert estimate is not None
    assert (estimate.low, estimate.value, estimate.high) == (1.1, pytest.approx(1.35), 1.6)


def test_two_blocks_pool_their_ratios() -> None:
    estimate = blocked_median([[1.1, 1.2, 1.3], [1.4, 1.5, 1.6]])
    assert estimate is not None
    assert (estimate.low, estimate.high) == (1.1, 1.6)


def test_six_blocks_count_as_six_values_however_many_pairs_they_hold() -> None:
    blocks = [[m - 0.05, m, m + 0.05] for m in (1.0, 1.1, 1.2, 1.3, 1.4, 1.5)]
    estimate = blocked_median(blocks)
    assert estimate is not None
    assert (estimate.low, estimate.value, estimate.high) == (1.0, pytest.approx(1.25), 1.5)
    assert estimate.confidence == 0.96875


def test_empty_blocks_count_for_nothing() -> None:
    full = [[1.0], [1.1], [1.2], [1.3], [1.4]]
    assert blocked_median([*full, []]) is None
    assert scope([*full, []]) is Scope.FEW


def test_what_the_interval_speaks_of() -> None:
    assert scope([[1.0] * 9]) is Scope.ONE
    assert scope([[1.0]] * 5) is Scope.FEW
    assert scope([[1.0]] * 6) is Scope.ANY


def _hits(blocks: int, between: float, truth: float | None, seed: int) -> float:
    rng = np.random.default_rng(seed)
    hits = 0
    for _ in range(1500):
        centres = rng.normal(1.3, between, blocks)
        ratios = [rng.normal(centre, 0.02, 8).tolist() for centre in centres]
        estimate = blocked_median(ratios)
        assert estimate is not None
        hits += estimate.low <= (np.median(centres) if truth is None else truth) <= estimate.high
    return hits / 1500


def test_covers_the_median_of_allocations_like_these() -> None:
    # Pooling 64 ratios of 8 blocks that differ this much would cover far less than 95 %.
    assert _hits(blocks=8, between=0.1, truth=1.3, seed=3) >= 0.95


def test_pooled_interval_of_blocks_that_do_not_differ_covers() -> None:
    assert _hits(blocks=3, between=0.0, truth=1.3, seed=4) >= 0.945


def test_pooled_interval_is_on_the_wide_side_for_blocks_that_differ() -> None:
    # Three fixed blocks around 1.3, symmetric: 1.3 is the median of their mixture.
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(1500):
        ratios = [rng.normal(centre, 0.02, 8).tolist() for centre in (1.2, 1.3, 1.4)]
        estimate = blocked_median(ratios)
        assert estimate is not None
        hits += estimate.low <= 1.3 <= estimate.high
    assert hits / 1500 >= 0.95
