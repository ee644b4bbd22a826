"""The order in which membench uses hardware threads, on made machines.

membench's window in which all cores are busy, by hand.
"""

import ctypes
import shutil

import pytest

from tests.reframe_tests.conftest import library

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs cc")

COMPACT, SPREAD = 0, 1


class Place(ctypes.Structure):
    _fields_ = (
        ("cpu", ctypes.c_int),
        *((name, ctypes.c_long) for name in ("package", "cache", "sibling")),
        *((name, ctypes.c_long) for name in ("cache_rank", "core_rank")),
    )


@pytest.fixture(scope="module")
def order(tmp_path_factory):
    function = library(tmp_path_factory.mktemp("order"), "order").topology_sort

    def call(places, order):
        made = (Place * len(places))(*(Place(*each) for each in places))
        function(made, len(places), order)
        return [each.cpu for each in made]

    return call


#: Two sockets of two caches of two cores of two threads, numbered as Linux numbers most machines:
#: first threads of all cores, then second ones. (cpu, socket, cache, thread of the core)
USUAL = [(c, c % 8 // 4, c % 8 // 2 * 2, c // 8) for c in range(16)]


def test_compact_fills_a_cache_then_the_next(order):
    assert order(USUAL, COMPACT) == [*range(8), *range(8, 16)]


def test_spread_goes_to_the_other_socket_then_to_the_other_cache(order):
    assert order(USUAL, SPREAD) == [0, 4, 2, 6, 1, 5, 3, 7, 8, 12, 10, 14, 9, 13, 11, 15]


def test_numbers_that_alternate_between_sockets(order):
    places = [(c, c % 2, c % 2, 0) for c in range(8)]
    assert order(places[::-1], COMPACT) == [0, 2, 4, 6, 1, 3, 5, 7]
    assert order(places[::-1], SPREAD) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_caches_of_different_size(order):
    # Three cores at one cache and one at the other: the last two have the first to themselves.
    assert order([(0, 0, 0, 0), (1, 0, 0, 0), (2, 0, 0, 0), (3, 0, 3, 0)], SPREAD) == [0, 3, 1, 2]


class CoreResult(ctypes.Structure):
    _fields_ = (
        ("rate", ctypes.c_double),
        ("fastest", ctypes.c_double),
        ("iterations", ctypes.c_long),
        ("passes", ctypes.c_long),
    )


@pytest.fixture(scope="module")
def steady(tmp_path_factory):
    function = library(tmp_path_factory.mktemp("steady"), "steady").steady_rates
    function.restype = ctypes.c_double

    def call(ends, bytes_each):
        arrays = [(ctypes.c_double * len(e))(*e) for e in ends]
        pointers = (ctypes.POINTER(ctypes.c_double) * len(ends))(
            *(ctypes.cast(a, ctypes.POINTER(ctypes.c_double)) for a in arrays)
        )
        counts = (ctypes.c_size_t * len(ends))(*map(len, ends))
        sizes = (ctypes.c_double * len(ends))(*bytes_each)
        results = (CoreResult * len(ends))()
        window_s = function(len(ends), pointers, counts, sizes, results)
        return window_s, [(r.rate, r.fastest, r.iterations) for r in results]

    return call


def test_steady_state_of_one_core(steady):
    # Ends at 1, 2, 3, 4, 6 s: the first (0 to 1) and the last (4 to 6) are dropped.
    window_s, results = steady([[1, 2, 3, 4, 6]], [10])
    assert window_s == 3
    assert results == [(10.0, 10.0, 3)]


def test_steady_state_of_two_cores(steady):
    # Core A: ends 1 .. 9; core B begins late: ends 3.5, 4.5, 5.5, 6.5, 7.5. All are in from 3.5
    # (B's first end) to 6.5 (B's last start, A's is 8). Of A, 4 to 6 lies within: two iterations
    # of 10 bytes. Of B: 3.5 to 6.5, three of 20 bytes.
    window_s, results = steady([[1, 2, 3, 4, 5, 6, 7, 8, 9], [3.5, 4.5, 5.5, 6.5, 7.5]], [10, 20])
    assert window_s == 3
    assert results == [(10.0, 10.0, 2), (20.0, 20.0, 3)]


def test_the_fastest_iteration(steady):
    # Of 1 to 2, 2 to 2.5 and 2.5 to 4 s the second is the fastest: 10 bytes in half a second.
    assert steady([[1, 2, 2.5, 4, 5]], [10]) == (3, [(10.0, 20.0, 3)])


def test_no_common_time(steady):
    assert steady([[1, 2, 3], [7, 8, 9]], [1, 1])[0] == 0
    assert steady([[1, 2]], [1])[0] == 0
