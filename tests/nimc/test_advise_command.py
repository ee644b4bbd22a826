from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nimc.cli.main import main
from tests.analysis.remedies.sweeps import sweep, swept
from tests.analysis.remedies.test_advice import CORE
from tests.analysis.synthetic import STREAM, header, samples, write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("advise")
    return write_run(folder / "core", samples(CORE, pairs=12), header(run="core"))


def _nimc(monkeypatch: pytest.MonkeyPatch, *words: object) -> int | str | None:
    monkeypatch.setattr("sys.argv", ["nimc", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


def test_three_sentences_and_a_table_in_eighty_columns(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _nimc(monkeypatch, "advise", run, "--nodes", 100, "--traffic-share", 0.5) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    words = " ".join(out.split())
    assert "synthetic machine With traffic 50 % of the time (assumed), on" in words
    assert "node-hours a month if 100 nodes (assumed) run it" in words
    assert "Recommended: reserved_cores=1 for lammps under on" in words
    (row,) = [line for line in out.splitlines() if line.startswith("lammps")]
    assert row.split()[-1] == "better"


def test_without_options_no_month_is_named(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _nimc(monkeypatch, "advise", run) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "With traffic all the time, as in the runs" in words
    assert "month" not in words


def test_a_sweep_prints_its_loss_per_byte_and_crossover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = swept(sweep(noise=0.003), pairs=8)
    assert _nimc(monkeypatch, "advise", write_run(tmp_path / "sweep", found)) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    words = " ".join(out.split())
    assert "stream, reserved cores 0: lost per byte written 0." in words
    assert "equals the price of reserved_cores=1: " in words


def test_json_is_one_document_with_one_advice_per_machine(
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    head = header(run="plain", machine="another")
    other = write_run(tmp_path / "plain", samples(STREAM, pairs=6), head)
    assert _nimc(monkeypatch, "advise", run, other, run, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    assert [each["machine"] for each in document["advice"]] == ["synthetic machine", "another"]
    first, second = document["advice"]
    assert first["runs"] == ["core"]
    assert [each["remedies"] for each in first["best"]] == [["reserved_cores=1"]]
    assert second["remedies"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nodes", "0"], "--nodes"),
        (["--traffic-share", "0"], "--traffic-share"),
        (["--traffic-share", "1.1"], "--traffic-share"),
        (["--traffic-share", "nan"], "allowed: above 0, at most 1"),
    ],
)
def test_wrong_options_are_one_message_and_code_two(
    run: Path,
    words: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _nimc(monkeypatch, "advise", run, *words) == 2
    assert said in capsys.readouterr().err


def test_a_run_with_faults_needs_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = samples(CORE, pairs=8)
    made[3] = replace(made[3], position=99)
    faulty = write_run(tmp_path / "faulty", made)
    assert _nimc(monkeypatch, "advise", faulty) == 2
    assert "integrity" in capsys.readouterr().err
    assert _nimc(monkeypatch, "advise", faulty, "--force") == 0
    assert "not to be trusted" in " ".join(capsys.readouterr().out.split())
