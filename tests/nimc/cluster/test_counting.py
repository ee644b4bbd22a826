"""Doctor's checks on counting, with what PAPI 7.0 printed on a virtual machine without counters."""

from pathlib import Path

import pytest

from nimc.cluster import doctor
from nimc.cluster.doctor import refusal

CAPTURES = Path(__file__).parents[2] / "captures" / "papi" / "command_line"


@pytest.fixture
def papi(tmp_path, monkeypatch):
    """A host whose PAPI lists 23 presets, and answers the question for cycles with a capture."""

    def answers(text: str) -> None:
        for name, said in {
            "papi_avail": (CAPTURES / "avail_23_presets.txt").read_text(),
            "papi_command_line": text,
        }.items():
            (tmp_path / f"{name}.txt").write_text(said)
            (tmp_path / name).write_text(f"#!/bin/sh\ncat {tmp_path}/{name}.txt\n")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return answers


def test_presets_that_count_nothing_are_not_fine(papi):
    # 23 of 108 presets are listed there, and the first of them is refused.
    papi((CAPTURES / "tot_cyc_refused.txt").read_text())
    found = doctor.papi()
    assert found.state == "limited"
    assert found.detail == (
        "23 preset events listed, and PAPI_TOT_CYC counts nothing: Event does not exist"
    )
    assert found.remedy


def test_presets_that_count_are_fine(papi):
    text = (CAPTURES / "task_clock_counted.txt").read_text()
    papi(text.replace("perf::TASK-CLOCK", "PAPI_TOT_CYC"))
    found = doctor.papi()
    assert (found.state, found.detail) == ("ok", "23 preset events; PAPI_TOT_CYC counts")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("PAPI_TOT_CYC : \t0 \n", "its count is 0"),
        ("Failed adding: PAPI_TOT_CYC\nbecause: Event does not exist\n", "Event does not exist"),
        ("", "no answer"),
        ("PAPI_TOT_CYC : \t67564604 \n", None),
    ],
)
def test_what_papi_says_of_cycles(text, why):
    assert refusal(text) == why


class Stub:
    def __init__(self, why):
        self.why = why

    def missing(self):
        return self.why


def test_each_tool_says_in_one_line_what_it_lacks(monkeypatch):
    lacking = "counts none of a, b on this host (measure elsewhere)"
    monkeypatch.setattr(
        doctor,
        "TOOLS",
        {"p": Stub(None), "p:x": Stub(lacking), "p:y": Stub(lacking), "q": Stub("no q")},
    )
    assert [(f.what, f.state, f.detail, f.remedy) for f in doctor.tools()] == [
        ("tool p", "ok", "ready", ""),
        (
            "tool p:x, p:y",
            "limited",
            "counts none of a, b on this host",
            "measure elsewhere",
        ),
        ("tool q", "limited", "no q", ""),
    ]
