from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.analysis.remedies.sweeps import sweep, swept
from tests.analysis.remedies.test_advice import CORE
from tests.analysis.synthetic import STREAM, header, samples, write_run
from tests.nimc.conftest import Command


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("advise")
    return write_run(folder / "core", samples(CORE, pairs=12), header(run="core"))


def test_three_sentences_and_a_table_in_eighty_columns(run: Path, command: Command) -> None:
    out = command("advise", run, "--nodes", 100, "--traffic-share", 0.5)
    assert max(map(len, out.splitlines())) <= 80
    words = " ".join(out.split())
    assert "synthetic machine With traffic 50 % of the time (assumed), on" in words
    assert "node-hours a month if 100 nodes (assumed) run it" in words
    assert "Recommended: reserved_cores=1 for lammps under on" in words
    (row,) = [line for line in out.splitlines() if line.startswith("lammps")]
    assert row.split()[-1] == "better"


def test_without_options_no_month_is_named(run: Path, command: Command) -> None:
    command("advise", run)
    words = " ".join(command.out.split())
    assert "With traffic all the time, as in the runs" in words
    assert "month" not in words


def test_a_sweep_prints_its_loss_per_byte_and_crossover(tmp_path: Path, command: Command) -> None:
    found = swept(sweep(noise=0.003), pairs=8)
    out = command("advise", write_run(tmp_path / "sweep", found))
    assert max(map(len, out.splitlines())) <= 80
    words = " ".join(out.split())
    assert "stream, reserved cores 0: lost per byte written 0." in words
    assert "equals the price of reserved_cores=1: " in words


def test_json_is_one_document_with_one_advice_per_machine(
    run: Path,
    tmp_path: Path,
    command: Command,
) -> None:
    head = header(run="plain", machine="another")
    other = write_run(tmp_path / "plain", samples(STREAM, pairs=6), head)
    command("advise", run, other, run, "--json")
    document = json.loads(command.out)
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
    command: Command,
) -> None:
    command("advise", run, *words, code=2)
    assert said in command.err


def test_a_run_with_faults_needs_force(tmp_path: Path, command: Command) -> None:
    made = samples(CORE, pairs=8)
    made[3] = replace(made[3], position=99)
    faulty = write_run(tmp_path / "faulty", made)
    command("advise", faulty, code=2)
    assert "integrity" in command.err
    command("advise", faulty, "--force")
    assert "not to be trusted" in " ".join(command.out.split())
