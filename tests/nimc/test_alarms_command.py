"""`nimc alarms` on a store of made nights."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from nimc.cli import history
from tests.analysis.history.nights_table import night_rows, nights_table, runs_table


class Store:
    """Nights in place of a store's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.nights = nights_table()
        self.runs = runs_table({})
        monkeypatch.setattr(history, "load_nights", self._load("nights"))
        monkeypatch.setattr(history, "load_runs", self._load("runs"))

    def _load(self, table: str):
        def load(_: Path, *, machine: str | None) -> pl.DataFrame:
            frame = getattr(self, table)
            return frame if machine is None else frame.filter(machine=machine)

        return load

    def __call__(self, *words: str):
        return CliRunner().invoke(history.alarms_command, list(words), standalone_mode=False)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    return Store(monkeypatch)


def lost(nights: int) -> pl.DataFrame:
    """Nights, the last two of which are 10 % slower."""
    values = 100 * np.exp(0.01 * np.random.default_rng(27).standard_normal(nights))
    values[-2:] *= 1.1
    return nights_table(*night_rows(values.tolist(), arm="off"))


def test_an_alarm_of_the_last_night_is_exit_code_1(store: Store) -> None:
    store.nights = lost(82)
    store.runs = runs_table(
        {f"run{n:03}": json.dumps({"kernel": "5" if n < 80 else "6"}) for n in range(82)}
    )
    result = store()
    assert result.return_value == 1
    lines = result.output.splitlines()
    alarm = " ".join(line.strip() for line in lines[:2])
    assert alarm.startswith("2025-03-28 suspected: hpc: stream off fom (nightly) worse by the")
    assert alarm.endswith("since 2025-03-27")
    assert lines[2] == "  changed at the same time: kernel: 5 -> 6"
    assert lines[3:5] == [
        "  to confirm, 5 times in one night:",
        "    nimc run nightly --machine hpc --case stream --fresh --nodelist n1",
    ]
    assert "because" not in result.output


def test_a_long_command_to_confirm_can_be_pasted(store: Store) -> None:
    store.nights = lost(82).with_columns(case=pl.lit("a-case-of-a-long-name-" + "x" * 30))
    lines = store().output.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("    nimc run "))
    assert max(map(len, lines)) <= 80
    pasted = shlex.split("\n".join(lines[at : lines.index("", at)]).replace("\\\n", ""))
    assert pasted[-3:] == ["--fresh", "--nodelist", "n1"]


def test_an_alarm_of_an_earlier_night_is_shown_with_exit_code_0(store: Store) -> None:
    later = night_rows([*[None] * 82, 110.0], arm="off")
    store.nights = pl.concat([lost(82), nights_table(*later)])
    result = store()
    assert (result.return_value, "suspected" in result.output) == (0, True)


def test_the_document(store: Store) -> None:
    store.nights = lost(82)
    document = json.loads(store("--json").output)
    assert document["schema"] == 1
    assert (document["within_nights"], document["power"]) == (5, 0.8)
    assert [each["state"] for each in document["alarms"]] == ["suspected"]
    assert document["confirmations"][0]["repeats"] == 5
    assert [each["case"] for each in document["watched"]] == ["stream"]
    text = (history.ROOT / "docs/alarms.md").read_text()
    (alarm,), (watch,) = document["alarms"], document["watched"]
    keys = {*document, *alarm, *document["confirmations"][0], *watch, *watch["changes"][0]}
    assert {key for key in keys if f"`{key}`" not in text} == set()


def test_an_empty_store(store: Store) -> None:
    result = store()
    assert result.return_value == 0
    assert result.output.splitlines() == ["no alarms", "", "no nights in the store"]
    assert "no nights of other in the store" in store("--machine", "other").output


def test_references_are_a_patch_and_nothing_is_written(store: Store) -> None:
    values = (100 * np.exp(0.01 * np.random.default_rng(27).standard_normal(80))).tolist()
    store.nights = nights_table(*night_rows(values, machine="localhost", arm="off"))
    site = history.ROOT / "site/localhost.yaml"
    before = site.read_text()
    result = store("--references", "--machine", "localhost")
    assert "+++ b/site/localhost.yaml" in result.output
    (line,) = [line for line in result.output.splitlines() if line.startswith("+  stream: ")]
    assert float(line.split()[-1]) == pytest.approx(100, rel=0.005)
    assert site.read_text() == before


@pytest.mark.parametrize("words", [["--references"], ["--references", "--machine", "nowhere"]])
def test_references_need_a_known_machine(store: Store, words: list[str]) -> None:
    assert "machine" in str(store(*words).exception)
