"""LIKWID: made figures in the CSV that LIKWID 5.2.2 prints (tests/captures/likwid/README.md)."""

import shutil
from pathlib import Path

import pytest

from reframe_tests.tools import TOOLS
from reframe_tests.tools.base import ToolError
from tests.reframe_tests.command import run_tool, script

CAPTURES = Path(__file__).parents[2] / "captures" / "likwid"
MEMORY, STALLS = TOOLS["likwid:MEM"], TOOLS["likwid:CYCLE_STALLS"]
#: Stands in for likwid-perfctr: notes its arguments up to the application, and runs that.
LIKWID = '#!/bin/sh\necho "$1 $2 $3 $4 $5 $6" > "$NOTE"\nshift 6\n"$@"\n'


def test_events_are_sums_over_channels_and_cpus():
    found = {row.event: row for row in MEMORY.parse(CAPTURES / "memory", 8)}
    assert found["CAS_COUNT_RD"].value == 100_000_000 + 110_000_000
    assert found["INSTR_RETIRED_ANY"].value == 6_500_000_000
    assert {row.rank for row in found.values()} == {4}


def test_volumes_are_in_bytes_and_rates_and_ratios_are_left_out():
    found = {row.event: row for row in MEMORY.parse(CAPTURES / "memory", 8)}
    # 210e6 and 90e6 lines of 64 B.
    assert found["Memory read data volume"].value == pytest.approx(210e6 * 64)
    assert found["Memory write data volume"].value == pytest.approx(90e6 * 64)
    assert found["Memory read data volume"].unit == "B"
    assert not [event for event in found if "bandwidth" in event or event in ("CPI", "Runtime")]


def test_what_likwid_could_not_count_has_no_value():
    found = {row.event: row for row in STALLS.parse(CAPTURES / "stalls", 1)}
    missing = found["CYCLE_ACTIVITY_STALLS_LDM_PENDING"]
    assert (missing.value, missing.state) == (None, "not counted")
    assert found["CYCLE_ACTIVITY_STALLS_L2_PENDING"].value == 900_000_000


@pytest.mark.parametrize(
    ("capture", "end", "said"),
    [
        ("memory/rank-4.csv", "WR", r"rank-0\.csv: not a CSV file of likwid-perfctr"),
        ("unsupported/stderr.txt", "", r"rank-0\.csv: no table of group 1"),
    ],
)
def test_a_file_that_is_cut_off_or_has_no_table_is_named(tmp_path, capture, end, said):
    text = (CAPTURES / capture).read_text()
    if end:
        text = text[: text.index(f"CAS_COUNT_{end}") + 16]
    (tmp_path / "rank-0.csv").write_text(text)
    with pytest.raises(ToolError, match=said):
        STALLS.parse(tmp_path, 1)


@pytest.fixture
def fake(tmp_path, monkeypatch):
    program = script(tmp_path / "bin" / "likwid-perfctr", LIKWID)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("NOTE", str(tmp_path / "note"))
    return program


@pytest.mark.usefixtures("fake")
def test_a_rank_counts_on_the_cpus_that_it_may_use(tmp_path):
    command = "taskset -c 0 true" if shutil.which("taskset") else "true"
    assert run_tool(STALLS, tmp_path, "sh", "-c", command).returncode == 0
    status = Path("/proc/self/status").read_text()
    (cpus,) = (line.split()[1] for line in status.splitlines() if "Cpus_allowed_list" in line)
    note = (tmp_path / "note").read_text().split()
    assert note == ["-c", cpus, "-g", "CYCLE_STALLS", "-o", f"{tmp_path}/rank-0.csv"]


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(("end", "status"), [("exit 3", 3), ("kill -9 $$", 137)])
def test_status_and_words_of_the_application_survive(tmp_path, end, status):
    done = run_tool(STALLS, tmp_path, "sh", "-c", f'echo "$1"; {end}', "x", "it's two")
    assert (done.returncode, done.stdout) == (status, "it's two\n")


@pytest.mark.usefixtures("fake")
def test_controllers_are_counted_by_the_first_rank_of_a_node(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_LOCALID", "1")
    monkeypatch.setenv("SLURM_PROCID", "1")
    assert run_tool(MEMORY, tmp_path, "true").returncode == 0
    assert not (tmp_path / "note").exists()
    monkeypatch.setenv("SLURM_LOCALID", "0")
    assert run_tool(MEMORY, tmp_path, "true").returncode == 0
    assert (tmp_path / "note").exists()


def test_a_processor_that_likwid_does_not_know_or_has_no_group_for_is_missing(fake):
    said = (CAPTURES / "unsupported" / "stderr.txt").read_text().splitlines()[-3]
    script(fake, f"echo '{said}' >&2\nexit 1")
    assert MEMORY.missing() == f"LIKWID does not know this processor: {said}"
    # `-a` of LIKWID 5.2 on a processor that it knows.
    groups = "    Group name\tDescription\n--------\n          L3\tL3 cache bandwidth"
    script(fake, f"echo '{groups}'")
    assert MEMORY.missing() == "LIKWID has no group MEM for this processor"


def test_a_host_without_likwid_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert MEMORY.missing().startswith("no likwid-perfctr on PATH")
