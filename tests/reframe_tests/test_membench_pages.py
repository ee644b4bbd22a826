"""membench runs in huge pages only if the system gives them."""

import ctypes
import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.reframe_tests.command import ran
from tests.reframe_tests.conftest import document, refused

THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
PR_SET_THP_DISABLE = 41


def test_transparent_huge_pages_are_had(membench, tmp_path):
    """The kernel's account of the whole process, which membench does not read, agrees."""
    if not THP.exists() or "[never]" in THP.read_text():
        pytest.skip("the system gives no transparent huge pages")
    words = [membench, "read", "-n", 1, "--pages", "transparent", "-s", "7MiB", "-d", 1]
    path, most_kib = tmp_path / "out.json", 0
    with subprocess.Popen([*map(str, words), "-j", path], stdout=subprocess.PIPE) as process:
        account = Path(f"/proc/{process.pid}/smaps_rollup")
        while process.poll() is None and most_kib < 8192:
            try:
                rows = account.read_text().splitlines()
            except (FileNotFoundError, ProcessLookupError):
                break
            found = [int(row.split()[1]) for row in rows if row.startswith("AnonHugePages")]
            most_kib = max([most_kib, *found])
            time.sleep(0.01)
        process.communicate(timeout=30)
    assert process.returncode == 0
    got = json.loads(path.read_text())
    assert got["pages"] == "transparent"
    # Four pages of 2 MiB hold 7 MiB.
    assert got["huge_b"] == got["memory_b"] == 8 * 2**20 == most_kib * 1024


def test_transparent_huge_pages_that_are_not_had_give_no_figure(membench):
    def forbid():
        ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)

    words = ("read", "-n", 1, "-s", "4MiB", "-d", 0.05)
    done = ran(membench, *words, "--pages", "transparent", preexec_fn=forbid)
    refused(done, "transparent huge pages")
    got = document(membench, *words)
    assert (got["pages"], got["huge_b"]) == ("normal", 0)
