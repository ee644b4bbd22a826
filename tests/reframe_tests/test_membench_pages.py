"""Tests of membench with transparent huge pages, which the system may give or refuse."""

import ctypes
from pathlib import Path

import pytest

from records.kernel_text import read
from tests.reframe_tests.conftest import at_work, document, refused
from tests.reframe_tests.reframe_call import ran
from tests.waiting import wait_until

THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
PR_SET_THP_DISABLE = 41


def huge_b(pid):
    rows = read(f"/proc/{pid}/smaps_rollup").splitlines()
    return sum(1024 * int(row.split()[1]) for row in rows if row.startswith("AnonHugePages"))


@pytest.mark.slow
def test_membench_gets_transparent_huge_pages(membench):
    """Linux counts the huge pages of the whole process; membench does not read this count."""
    if not THP.exists() or "[never]" in THP.read_text():
        pytest.skip("the system gives no transparent huge pages")
    words = ("read", "-n", 1, "--pages", "transparent", "-s", "7MiB")
    # The run must not be longer, since the times of its iterations would also fill huge pages.
    with at_work(membench, *words, "-d", 5) as pid:
        wait_until(lambda: huge_b(pid) >= 8 * 2**20)
        seen_b = huge_b(pid)
    result = document(membench, *words, "-d", 0.02)
    assert result["pages"] == "transparent"
    # Four pages of 2 MiB hold 7 MiB.
    assert result["huge_b"] == result["memory_b"] == 8 * 2**20 == seen_b


@pytest.mark.slow
def test_membench_gives_no_figure_if_the_system_refuses_huge_pages(membench):
    def forbid():
        ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)

    words = ("read", "-n", 1, "-s", "4MiB", "-d", 0.05)
    done = ran(membench, *words, "--pages", "transparent", preexec_fn=forbid)
    refused(done, "transparent huge pages")
    result = document(membench, *words)
    assert (result["pages"], result["huge_b"]) == ("normal", 0)
