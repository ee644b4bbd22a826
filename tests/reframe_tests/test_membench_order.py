"""Two functions of membench, with results by hand.

One orders the hardware threads of made machines. The other finds the window in which all cores are
busy.
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
        ("package", ctypes.c_long),
        ("cache", ctypes.c_long),
        ("sibling", ctypes.c_long),
        ("cache_rank", ctypes.c_long),
        ("core_rank", ctypes.c_long),
    )


@pytest.fixture(scope="module")
def order(tmp_path_factory):
    function = library(tmp_path_factory.mktemp("order"), "order").topology_sort

    def call(places, policy):
        cores = (Place * len(places))(*(Place(*core) for core in places))
        function(cores, len(places), policy)
        return [core.cpu for core in cores]

    return call


#: Two sockets of two caches of two cores of two threads, numbered as Linux numbers most machines:
#: first threads of all cores, then second ones. (cpu, socket, cache, thread of the core)
USUAL = [(c, c % 8 // 4, c % 8 // 2 * 2, c // 8) for c in range(16)]
#: Two sockets of one cache of four cores, numbered in turn, and listed backwards.
ALTERNATING = [(c, c % 2, c % 2, 0) for c in range(8)][::-1]


@pytest.mark.parametrize(
    ("places", "policy", "expected"),
    [
        (USUAL, COMPACT, [*range(16)]),
        # To the other socket, then to the other cache.
        (USUAL, SPREAD, [0, 4, 2, 6, 1, 5, 3, 7, 8, 12, 10, 14, 9, 13, 11, 15]),
        (ALTERNATING, COMPACT, [0, 2, 4, 6, 1, 3, 5, 7]),
        (ALTERNATING, SPREAD, [0, 1, 2, 3, 4, 5, 6, 7]),
        # Three cores at one cache and one at the other: one of each, then the rest of the first.
        ([(0, 0, 0, 0), (1, 0, 0, 0), (2, 0, 0, 0), (3, 0, 3, 0)], SPREAD, [0, 3, 1, 2]),
    ],
)
def test_order_of_hardware_threads(order, places, policy, expected):
    assert order(places, policy) == expected


class CoreResult(ctypes.Structure):
    _fields_ = (
        ("rate_b_s", ctypes.c_double),
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
        return window_s, [(r.rate_b_s, r.iterations) for r in results]

    return call


@pytest.mark.parametrize(
    ("ends", "bytes_each", "window_s", "results"),
    [
        # The first iteration (0 to 1) and the last (4 to 6) are dropped.
        ([[1, 2, 3, 4, 6]], [10], 3, [(10.0, 3)]),
        # Core A: ends 1 .. 9; core B begins late: ends 3.5, 4.5, 5.5, 6.5, 7.5. All are in from 3.5
        # (B's first end) to 6.5 (B's last start, A's is 8). Of A, 4 to 6 lies within: two
        # iterations of 10 bytes. Of B: 3.5 to 6.5, three of 20 bytes.
        (
            [[1, 2, 3, 4, 5, 6, 7, 8, 9], [3.5, 4.5, 5.5, 6.5, 7.5]],
            [10, 20],
            3,
            [(10.0, 2), (20.0, 3)],
        ),
        # No common time.
        ([[1, 2, 3], [7, 8, 9]], [1, 1], 0, None),
        ([[1, 2]], [1], 0, None),
    ],
)
def test_steady_state(steady, ends, bytes_each, window_s, results):
    computed_window_s, computed_results = steady(ends, bytes_each)
    assert computed_window_s == window_s
    assert results is None or computed_results == results
