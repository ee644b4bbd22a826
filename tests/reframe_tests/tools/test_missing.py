"""Tests of the reasons why a tool cannot count on a host; scripts stand in for its programs."""

import pytest

from reframe_tests.tools import TOOLS, perf_stat
from tests.captures import CAPTURES
from tests.reframe_tests.reframe_call import script

#: UNKNOWN is the message of LIKWID 5.2.2 on a processor that it does not know. GROUPS is the output
#: of its option `-a` on a known processor.
UNKNOWN = (CAPTURES / "likwid/unsupported/stderr.txt").read_text().splitlines()[-3]
GROUPS = "    Group name\tDescription\n--------\n          L3\tL3 cache bandwidth"
#: A script that stands in for perf. It refuses the events `unknown`, counts the events `counted`,
#: and prints a line for each event.
PERF = """#!/bin/sh
out=/dev/null
for word; do
    [ "$last" = -o ] && out=$word
    [ "$last" = -e ] && events=$word
    last=$word
done
IFS=,
for event in $events; do
    case $event in {unknown}) echo "event syntax error: '$event'" >&2; exit 129;; esac
    value='<not supported>'
    case ,task-clock,{counted}, in *,$event,*) value=7;; esac
    echo '{{"counter-value": "'$value'", "unit": "", "pcnt-running": 100.00,' \\
         '"event": "'$event':u"}}'
done > "$out"
"""
#: A script that stands in for papi_command_line on a host that counts all events.
TRIES = 'for event; do echo "Successfully added: $event"; done'
#: Scripts that stand in for a working Open|SpeedShop.
OSS = {
    "ossrun": ': > "$OPENSS_RAWDATA_DIR/data"',
    "ossutil": ":",
    "openss": ":",
    "papi_command_line": TRIES,
}
#: Scripts that stand in for an Open|SpeedShop that is built for CBTF; its `ossrun` has no
#: collectors.
CBTF = {
    "osscollect": ":",
    "cbtfrun": ': > "$CBTF_RAWDATA_DIR/data"',
    "openss": ":",
    "ossrun": "exit 1",
    "papi_command_line": TRIES,
}
#: Scripts that stand in for a working Open|SpeedShop on a host without a task clock.
CLOCKLESS = {**OSS, "papi_command_line": f"{TRIES} | grep -v TASK-CLOCK"}


def perf(unknown: str, counted: str) -> dict[str, str]:
    """Return scripts that stand in for perf and for awk on a processor of a known family."""
    programs = {"perf": PERF.format(unknown=unknown, counted=counted)}
    return {**programs, "awk": "echo GenuineIntel-6-85-7"}


@pytest.mark.parametrize(
    ("tool", "programs", "words"),
    [
        ("likwid:MEM", {}, "no likwid-perfctr on PATH"),
        ("perf_stat", {}, "perf is not installed"),
        ("openspeedshop", {}, "ossrun is not on PATH"),
        ("openspeedshop:figure4", CBTF, None),
        ("openspeedshop", {"osscollect": ":"}, "cbtfrun is not on PATH"),
        ("openspeedshop", {**CBTF, "cbtfrun": ":"}, "leaves no data"),
        (
            "likwid:MEM",
            {"likwid-perfctr": f"echo '{UNKNOWN}' >&2\nexit 1"},
            f"LIKWID does not know this processor: {UNKNOWN}",
        ),
        (
            "likwid:MEM",
            {"likwid-perfctr": f"echo '{GROUPS}'"},
            "LIKWID has no group MEM for this processor",
        ),
        ("perf_stat", {"perf": "exit 0"}, None),
        ("perf_stat", {"perf": "echo Error: unknown switch >&2; exit 129"}, "no JSON output"),
        (
            "perf_stat",
            {"perf": "echo; echo perf not found for kernel 6.9 >&2; exit 2"},
            "found for kernel 6.9",
        ),
        ("perf_stat:memory", perf("*stalls*", ""), "no hardware counters (measure on a machine"),
        ("perf_stat:memory", perf("*stalls*", "cycles"), "does not know all of"),
        ("perf_stat:memory", perf("none", ""), "no hardware counters (measure on a machine that"),
        ("perf_stat:memory", perf("none", "cycles"), None),
        ("perf_stat:dram", perf("none", "cycles"), "this host counts none of"),
        ("openspeedshop", OSS, None),
        (
            "openspeedshop",
            CLOCKLESS,
            "Open|SpeedShop does not run: openspeedshop: perf::TASK-CLOCK cannot be counted;"
            " without it several events are not verified",
        ),
        *(("openspeedshop:hwc", programs, None) for programs in (OSS, CLOCKLESS)),
    ],
)
def test_a_tool_names_what_is_missing_on_the_host(tmp_path, monkeypatch, tool, programs, words):
    for name, text in programs.items():
        script(tmp_path / "bin" / name, text)
    # Without scripts, PATH must not have the folders of this host, since it may have the tool.
    shell = ":/usr/bin:/bin" if programs else ""
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{shell}")
    cpuinfo = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nstepping\t: 7\n"
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    (tmp_path / "paranoid").write_text("2\n")
    monkeypatch.setattr(perf_stat, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(perf_stat, "PARANOID", tmp_path / "paranoid")
    missing = TOOLS[tool].why_missing()
    assert missing is None if words is None else words in str(missing)


def test_the_reason_tells_a_user_without_permission_what_an_administrator_can_do(
    tmp_path, monkeypatch
):
    script(tmp_path / "perf", "echo Error: >&2; exit 255")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "paranoid").write_text("4\n")
    monkeypatch.setattr(perf_stat, "PARANOID", tmp_path / "paranoid")
    assert "sysctl kernel.perf_event_paranoid=2" in TOOLS["perf_stat"].why_missing()
