"""The order of treatments in pairs follows Williams designs.

Small designs are worked out by hand. For larger ones, the properties of a design are checked.
"""

import random
from collections import Counter
from itertools import pairwise, permutations

import pytest

from records.order import pair_order, run_seed, williams

ARMS = ["off", "on", "spin", "aa", "constant", "daly"]


def group(k: int) -> dict[str, str | None]:
    """Return the first `k` arms, each with its baseline; `off` is the baseline of all others."""
    return {name: None if name == "off" else "off" for name in ARMS[:k]}


def orders(k: int, pairs: int, seed: int = 7, case: str = "c") -> list[list[str]]:
    return [pair_order(group(k), seed, case, pair) for pair in range(pairs)]


def test_designs_worked_out_by_hand():
    """In the design of four by Williams (1949), the first row is 0, 1, last, 2.

    Each further row adds 1 to each number of the row before.
    """
    assert williams(1) == [[[0]]]
    assert williams(2) == [[[0, 1], [1, 0]]]
    assert williams(3) == [[[0, 1, 2], [1, 2, 0], [2, 0, 1]], [[2, 1, 0], [0, 2, 1], [1, 0, 2]]]
    assert williams(4) == [[[0, 1, 3, 2], [1, 2, 0, 3], [2, 3, 1, 0], [3, 0, 2, 1]]]


@pytest.mark.parametrize(("k", "rows"), [(1, 1), (2, 2), (3, 6), (4, 4), (5, 10), (6, 6)])
def test_each_design_is_balanced(k, rows):
    """Each treatment comes equally often at each position, and after each other treatment."""
    for seed in range(5):
        drawn = orders(k, 3 * rows, seed)
        for first in range(0, 3 * rows, rows):
            design = drawn[first : first + rows]
            places = Counter(
                (name, position) for order in design for position, name in enumerate(order)
            )
            assert places == {
                (name, position): rows // k for name in ARMS[:k] for position in range(k)
            }
            neighbours = Counter(pair for order in design for pair in pairwise(order))
            assert neighbours == dict.fromkeys(permutations(ARMS[:k], 2), rows // k)


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_after_any_number_of_pairs_positions_are_balanced_to_within_one(k):
    """So a case may end or be resumed after any pair, since blocks continue the order."""
    places: Counter[tuple[str, int]] = Counter(
        (name, index) for name in ARMS[:k] for index in range(k)
    )
    for order in orders(k, 25):
        places.update((name, index) for index, name in enumerate(order))
        for position in range(k):
            counts = [places[name, position] for name in ARMS[:k]]
            assert max(counts) - min(counts) <= 1


def test_treatments_with_the_same_baseline_are_adjacent_and_balanced():
    """There are three baselines, whose groups have two, three and one treatment."""
    baselines = {"a": None, "b": None, "a1": "a", "b1": "b", "b2": "b", "c": None}
    drawn = [pair_order(baselines, 3, "c", pair) for pair in range(6)]
    assert all(sorted(order) == sorted(baselines) for order in drawn)
    groups = ["".join(dict.fromkeys(name[0] for name in order)) for order in drawn]
    assert sorted(groups) == ["abc", "acb", "bac", "bca", "cab", "cba"]  # adjacent, all orders
    b_orders = [tuple(name for name in order if name[0] == "b") for order in drawn]
    assert sorted(b_orders) == sorted(permutations(["b", "b1", "b2"]))


def test_the_order_differs_for_another_seed_or_case_and_for_each_design():
    first = orders(4, 40)
    assert first == orders(4, 40)
    for other in (orders(4, 40, seed=8), orders(4, 40, case="d")):
        assert other != first
    designs = {str(first[start : start + 4]) for start in range(0, 40, 4)}
    assert len(designs) >= 8  # 10 are drawn from 4! orders of labels times 4! orders of rows
    # The orders within two groups of two are independent.
    two = {"a": None, "b": None, "a1": "a", "b1": "b"}
    kinds = {tuple(pair_order(two, 1, "c", pair)) for pair in range(60)}
    assert len(kinds) == 8


def test_the_order_is_drawn_as_documented_so_that_stored_runs_keep_their_order():
    """The second design of three treatments is drawn step by step, as `records.order` describes."""
    rng = random.Random("7/c/0/off/1")
    labels = rng.sample(ARMS[:3], 3)
    squares = [[[0, 1, 2], [1, 2, 0], [2, 0, 1]], [[2, 1, 0], [0, 2, 1], [1, 0, 2]]]
    rng.shuffle(squares)
    rows = [row for square in squares for row in rng.sample(square, 3)]
    assert orders(3, 12)[6:] == [[labels[number] for number in row] for row in rows]


def test_the_seed_follows_from_digest_and_name_of_the_run():
    """It is the first 63 bits that `printf 'd/night-m-20261122-000000' | sha256sum` prints."""
    assert run_seed("d", "night-m-20261122-000000") == 0xCA8A297D805414D4 >> 1
    assert run_seed("e", "night-m-20261122-000000") != 0xCA8A297D805414D4 >> 1
