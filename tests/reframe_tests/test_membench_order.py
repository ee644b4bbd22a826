"""The order in which membench uses hardware threads, on made machines."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import pytest

from tests.reframe_tests.conftest import MEMBENCH

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
    library = tmp_path_factory.mktemp("order") / "order.so"
    subprocess.run(
        ["cc", "-std=c11", "-shared", "-fPIC", MEMBENCH / "order.c", "-o", library], check=True
    )
    function = ctypes.CDLL(str(library)).topology_sort

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
