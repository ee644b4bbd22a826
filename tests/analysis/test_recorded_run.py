"""A recorded run gives the report and the advice that were written next to it.

`nimc run quick` of a host of two cores, with writers through shared memory. What the applications,
the writers and ReFrame printed is left out, and paths are replaced.
"""

import json
from pathlib import Path

import pytest

from nimc.cli.main import main
from tests.captures import RUN_QUICK


def _nimc(monkeypatch: pytest.MonkeyPatch, *words: object) -> int | str | None:
    monkeypatch.setattr("sys.argv", ["nimc", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


def _figures(text: str) -> object:
    """The document with nine digits of every figure: the last ones depend on the processor."""
    return json.loads(text, parse_float=lambda figure: f"{float(figure):.9g}")


def _same(made: str, recorded: str) -> None:
    assert _figures(made) == _figures((RUN_QUICK.parent / recorded).read_text())


def test_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _nimc(monkeypatch, "report", RUN_QUICK, "--output", tmp_path) == 0
    (line, *_) = capsys.readouterr().out.splitlines()[1:]
    assert line.split()[0] == "stream"
    assert "inconclusive" in line
    assert line.endswith(" 6 pairs")
    _same((tmp_path / "results.json").read_text(), "results.json")


def test_its_advice(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _nimc(monkeypatch, "advise", RUN_QUICK, "--json") == 0
    _same(capsys.readouterr().out, "advice.json")
