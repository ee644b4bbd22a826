"""Tests that programs for developers refuse a wrong name with one line.

Developers start these programs, such as `bench`, by hand.
"""

import runpy

import pytest


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("bench chain chian", "chian: no such topic; allowed: agents, block, calibration, chain, "),
        ("bench --help", "--help: no such topic; allowed: agents, "),
        ("tests.fuzz --only chian", "chian: in the name of no row; rows: "),
    ],
)
def test_a_wrong_name_is_refused(
    words: str, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, *names = words.split()
    monkeypatch.setattr("sys.argv", [program, *names])
    with pytest.raises(SystemExit) as end:
        runpy.run_module(program, run_name="__main__")
    assert end.value.code == 2
    assert line in capsys.readouterr().err.splitlines()[-1]
