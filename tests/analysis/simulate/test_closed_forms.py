"""The simulation against what can be worked out on paper."""

import math

import numpy as np
import pytest

from analysis.simulate.progress import (
    Application,
    Noise,
    Windows,
    finishing_times,
    rank_slowdowns,
    simulate,
)

NEVER = Windows(np.empty(0, np.int64), np.empty(0), np.empty(0), math.inf)


def writes(*nodes_and_times: tuple[int, float, float]) -> Windows:
    node, start_s, end_s = zip(*nodes_and_times, strict=True)
    return Windows(np.array(node), np.array(start_s), np.array(end_s), math.inf)


def always(node: int) -> Windows:
    return writes((node, -1.0, 1e9))


ONE = np.array([2.5])


@pytest.mark.parametrize("halo", [0, 1, 3])
def test_one_slow_rank_and_a_reduction_every_step_slow_all_by_its_slowdown(halo: int) -> None:
    application = Application(64, 1, 50, 0.1, halo=halo, reduce_every=1)
    outcome = simulate(application, always(5), ONE, seed=1)
    assert outcome.slowdown == pytest.approx(2.5)
    assert outcome.slowdown_mean == pytest.approx(2.5)


def test_one_slow_rank_holds_back_others_by_their_distance() -> None:
    # At distance d, work is done at full speed while the delay travels: d of the steps.
    ranks, steps, step_s, slow = 41, 60, 0.1, 10
    application = Application(ranks, 1, steps, step_s, halo=1, periodic=False)
    (times,) = finishing_times(application, [always(slow)], ONE, seed=1)
    for rank, time_s in enumerate(times):
        distance = abs(rank - slow)
        assert time_s == pytest.approx(step_s * (distance + (steps - distance) * 2.5))


@pytest.mark.parametrize(
    ("halo", "periodic", "reached"), [(1, False, 7), (1, True, 7), (2, True, 25), (3, True, 63)]
)
def test_one_delay_travels_one_neighbour_a_step(halo: int, periodic: bool, reached: int) -> None:
    # Within three steps of the middle of a large grid: 7 on a line, 25 in a plane, 63 in space.
    side = 9
    middle = sum(side // 2 * side**axis for axis in range(halo))
    application = Application(side**halo, 1, 4, 1.0, halo=halo, periodic=periodic)
    (times,) = finishing_times(application, [writes((middle, 0.2, 0.4))], ONE, seed=1)
    # 0.2 s at 1 / 2.5 of the speed lose 0.12 s.
    assert np.count_nonzero(np.isclose(times, 4.12)) == reached
    assert np.count_nonzero(np.isclose(times, 4.0)) == side**halo - reached


def test_a_delay_crosses_the_border_of_a_periodic_grid_only() -> None:
    for ranks, periodic, late in (
        (9, True, [0, 1, 8]),
        (9, False, [0, 1]),
        (3, True, [0, 1, 2]),
        (3, False, [0, 1]),
    ):
        application = Application(ranks, 1, 2, 1.0, halo=1, periodic=periodic)
        (times,) = finishing_times(application, [writes((0, 0.2, 0.4))], ONE, seed=1)
        assert np.flatnonzero(times > 2.0 + 1e-9).tolist() == late


def test_without_synchronisation_each_rank_is_its_own() -> None:
    # Two nodes of two ranks; node 1 is hit for 3 of its seconds, slowdowns 3 and 1.5.
    application = Application(4, 2, 10, 1.0, halo=0)
    (times,) = finishing_times(application, [writes((1, 2.0, 5.0))], np.array([3.0, 1.5]), seed=1)
    # 3 s at a third do 1 s of work, 2 s late; at 2/3 they do 2 s, 1 s late.
    assert times == pytest.approx([10.0, 10.0, 12.0, 11.0])
    outcome = simulate(application, writes((1, 2.0, 5.0)), np.array([3.0, 1.5]), seed=1)
    assert outcome.slowdown == pytest.approx(1.2)
    assert outcome.slowdown_mean == pytest.approx(1.075)


def test_without_synchronisation_the_mean_is_that_of_a_share_of_time() -> None:
    # Every rank hit for 1 s of every 8 s, in turn: speed 7/8 + 1/8 / 2.5 of the full one.
    hits = writes(*((second % 8, second, second + 1.0) for second in range(2000)))
    outcome = simulate(Application(8, 1, 1000, 1.0, halo=0), hits, ONE, seed=1)
    assert outcome.slowdown_mean == pytest.approx(1 / (7 / 8 + 1 / 20), rel=1e-3)


def test_a_barrier_every_step_waits_for_the_largest_of_all_noise() -> None:
    # The largest of n exponentials has mean H_n and variance sum of 1 / i^2.
    ranks, steps, share = 256, 4000, 0.1
    application = Application(
        ranks, 1, steps, 1.0, halo=0, reduce_every=1, noise=Noise("exponential", share)
    )
    harmonic = sum(1 / i for i in range(1, ranks + 1))
    deviation = share * math.sqrt(sum(1 / i**2 for i in range(1, ranks + 1)) / steps)
    (times,) = finishing_times(application, [None], ONE, seed=3)
    a_step_s = times.max() / steps
    assert a_step_s == pytest.approx(1 + share * harmonic, abs=5 * deviation)


def test_noise_alone_is_no_slowdown() -> None:
    application = Application(64, 1, 20, 1.0, noise=Noise("normal", 0.05))
    assert simulate(application, NEVER, ONE, seed=3).slowdown == 1.0


def test_slowdowns_of_a_hit_node() -> None:
    # 16 ranks, one of 2.1, mean 1.1: the others (17.6 - 2.1) / 15.
    assert rank_slowdowns(16, 1.1, 2.1) == pytest.approx([2.1] + [15.5 / 15] * 15)
    assert rank_slowdowns(1, 2.1, 2.1) == pytest.approx([2.1])
