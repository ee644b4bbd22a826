import math

import numpy as np
import pytest

from analysis.statistics.aligned_ranks import next_allocation


def _blocks(*shifts: float) -> list[np.ndarray]:
    """One pair per block: the treated run takes exp(shift), its baseline 1."""
    return [np.array([[shift, 0.0]]) for shift in shifts]


def test_the_next_allocation_by_hand() -> None:
    # Shifts 0.01, 0.02, 0.03: mean 0.02, deviation 0.01, t with 2 degrees is 4.302653.
    half = 4.302653 * 0.01 * math.sqrt(4 / 3)
    assert next_allocation(_blocks(0.01, 0.02, 0.03)) == (
        pytest.approx(math.exp(0.02 - half)),
        pytest.approx(math.exp(0.02 + half)),
    )


def test_a_block_is_one_value_however_many_pairs_it_holds() -> None:
    # Hodges-Lehmann of 0, 0, 0.03: means of two are 0, 0, 0, 0.015, 0.015, 0.03: median 0.0075.
    long = np.array([[0.0, 0.0, 0.0], [0.01, 0.0, 0.02], [0.03, 0.0, np.nan]])
    others = _blocks(0.0075, 0.0075)
    found = next_allocation([long, *others])
    assert found == (pytest.approx(math.exp(0.0075)), pytest.approx(math.exp(0.0075)))


def test_two_blocks_say_nothing_of_the_next_and_empty_ones_do_not_count() -> None:
    assert next_allocation([*_blocks(0.01, 0.02), np.empty((0, 2))]) is None
