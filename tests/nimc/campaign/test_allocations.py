"""How slowdowns vary between allocations, and whether more allocations are worth it.

Figures are worked out by hand. Each block of runs has its own allocation of nodes.
"""

import math
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from scipy import stats

from nimc.campaign.allocations import Variation, advice, variation


def pairs(*blocks: tuple[float, ...], arm: str = "on") -> pl.DataFrame:
    """Return pairs of one case. Each block has the logarithms of the ratios of its pairs."""
    rows = [
        {"case": "a", "arm": arm, "block": number, "ratio": math.exp(log_ratio)}
        for number, block in enumerate(blocks)
        for log_ratio in block
    ]
    return pl.DataFrame(rows)


def test_variances_by_hand() -> None:
    """The variance within blocks is 0.02. The means 0, 1 and 2 of the blocks have a variance of 1.

    Half of 0.02 of it is by chance, since a block has two pairs.
    """
    spread = variation(pairs((-0.1, 0.1), (0.9, 1.1), (1.9, 2.1)))
    assert spread is not None
    assert spread.between_pairs**2 == pytest.approx(0.02)
    assert spread.between_allocations**2 == pytest.approx(1 - 0.02 / 2)
    # Blocks of two and of three pairs have variances of 0.02 and 0.09, with one and two degrees of
    # freedom.
    uneven = variation(pairs((-0.1, 0.1), (0.7, 1.0, 1.3)))
    assert uneven is not None
    assert uneven.between_pairs**2 == pytest.approx((0.02 + 2 * 0.09) / 3)
    # If the variation of pairs explains everything, allocations have no variance.
    alike = variation(pairs((-0.1, 0.1), (-0.1, 0.1)))
    assert alike is not None
    assert alike.between_allocations == 0
    # No variances follow from one allocation, from an allocation of one pair, or from repeated
    # baselines.
    assert variation(pairs((0.0, 0.1))) is None
    assert variation(pairs((0.0, 0.1), (0.2,))) is None
    assert variation(pairs((0.0, 0.1), (0.2, 0.3), arm="aa")) is None


def test_the_interval_of_the_next_allocation_follows_from_students_t() -> None:
    half = stats.t.ppf(0.975, 2) * math.sqrt((0.01**2 + 0.02**2 / 4) * 4 / 3)
    assert Variation(0.01, 0.02).half_width(3, 4) == pytest.approx(math.expm1(half))


def case(allocations: int, pairs_least: int) -> Any:
    """Return a case whose minimum of pairs takes `allocations`, and whose maximum two more."""
    needed = ["always"] * allocations + ["until decided"] * 2
    blocks = [SimpleNamespace(needed=kind) for kind in needed]
    return SimpleNamespace(blocks=blocks, pairs_least=pairs_least)


def test_advice_by_hand() -> None:
    """There are twelve pairs in three allocations.

    Student's t is 4.3027 for two degrees of freedom, and 3.1824 for three. The variances are
    (0.02^2 + 0.03^2 / 4) x 4/3 now; x 5/4 instead of 4/3 with one more allocation; and
    (0.02^2 + 0.03^2 / (16/3)) x 4/3 if its pairs are spread over the three allocations.
    """
    assert advice(Variation(0.02, 0.03), case(3, 12)) == (
        "The slowdown varies by 2 % between allocations and by 3 % between pairs. With 3"
        " allocations the interval of the next one is 13 % to either side. One more allocation"
        " makes it 9.3 %; its pairs, spread over these allocations instead, make it 13 %: add"
        " allocations."
    )
    # Ten allocations with a pair each do not differ. The three widths are then
    # 2.2622 sqrt(0.03^2 x 1.1), 2.2281 sqrt(0.03^2 x 12/11) and 2.2622 sqrt(0.03^2 / 1.1 x 1.1).
    ends = "is 7.4 % to either side. One more allocation makes it 7.2 %; its pairs, spread over"
    alike = advice(Variation(0.0, 0.03), case(10, 10))
    assert ends in alike
    assert alike.endswith("make it 7 %: add pairs to each.")
    assert advice(None, case(3, 12)).startswith("How much allocations differ is not known")
    assert advice(Variation(0.02, 0.03), case(2, 12)) == (
        "The pairs up to the floor take 2 allocations. An interval that covers the next allocation"
        " needs 3: set pairs.block to 4."
    )


def test_keys_of_the_variation_in_json_do_not_change() -> None:
    """`nimc plan --json` prints these keys under `allocations`."""
    assert Variation(0.02, 0.03).as_dict() == {"between": 0.02, "within": 0.03}
