"""Tests of two functions of membench, against results computed by hand.

The function topology_sort orders the hardware threads of made machines. The function steady_rates
finds the window of time in which all cores are busy.
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


#: A machine with two sockets, two caches a socket, two cores a cache and two threads a core. Linux
#: numbers most machines so: the first threads of all cores come before all second threads. Each row
#: is (cpu, socket, cache, thread of the core).
USUAL = [(c, c % 8 // 4, c % 8 // 2 * 2, c // 8) for c in range(16)]
#: A machine with two sockets, one cache a socket and four cores a cache. The numbers of the cores
#: alternate between the sockets. The list is in reverse order.
ALTERNATING = [(c, c % 2, c % 2, 0) for c in range(8)][::-1]


@pytest.mark.parametrize(
    ("places", "policy", "expected"),
    [
        (USUAL, COMPACT, [*range(16)]),
        # Successive threads alternate between sockets, and within a socket between caches.
        (USUAL, SPREAD, [0, 4, 2, 6, 1, 5, 3, 7, 8, 12, 10, 14, 9, 13, 11, 15]),
        (ALTERNATING, COMPACT, [0, 2, 4, 6, 1, 3, 5, 7]),
        (ALTERNATING, SPREAD, [0, 1, 2, 3, 4, 5, 6, 7]),
        # Three cores are at one cache and one core is at the other cache. The order has one core of
        # each cache first, and the other cores of the first cache afterwards.
        ([(0, 0, 0, 0), (1, 0, 0, 0), (2, 0, 0, 0), (3, 0, 3, 0)], SPREAD, [0, 3, 1, 2]),
    ],
)
def test_hardware_threads_are_ordered_by_policy(order, places, policy, expected):
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
        # The function drops the first iteration (0 to 1) and the last iteration (4 to 6).
        ([[1, 2, 3, 4, 6]], [10], 3, [(10.0, 3)]),
        # The iterations of core A end at 1 to 9. Core B begins late; its iterations end at 3.5,
        # 4.5, 5.5, 6.5 and 7.5. The window begins at 3.5, the first end of B. It ends at 6.5, since
        # the last iteration of B begins then; the last iteration of A begins at 8. Core A has two
        # iterations of 10 bytes in the window, from 4 to 6. Core B has three iterations of 20
        # bytes, from 3.5 to 6.5.
        (
            [[1, 2, 3, 4, 5, 6, 7, 8, 9], [3.5, 4.5, 5.5, 6.5, 7.5]],
            [10, 20],
            3,
            [(10.0, 2), (20.0, 3)],
        ),
        # The cores are never busy at the same time.
        ([[1, 2, 3], [7, 8, 9]], [1, 1], 0, None),
        ([[1, 2]], [1], 0, None),
    ],
)
def test_rates_are_those_of_the_window_in_which_all_cores_are_busy(
    steady, ends, bytes_each, window_s, results
):
    computed_window_s, computed_results = steady(ends, bytes_each)
    assert computed_window_s == window_s
    assert results is None or computed_results == results
