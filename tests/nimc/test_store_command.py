"""`nimc store` and `nimc runs`; `nimc alarms` on a store of made nights."""

import fcntl
import json
import os
import pwd
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from analysis.history.store import load_nights, load_runs, scan_samples
from nimc.cli import history
from tests.analysis.history.made import grow, made_run
from tests.analysis.history.nights_table import night_rows, nights_table, runs_table
from tests.nimc.conftest import Command, call

_DAYS = ("monday", "tuesday", "wednesday")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    for day, name in enumerate(_DAYS):
        made_run(folder / name, day=day)
    (folder / "latest").symlink_to("wednesday")
    (folder / "notes").mkdir()
    assert call(["store", "add", "--results", folder])[0] == 0
    return folder


@pytest.fixture
def results(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three runs that are in the store, and what else is in the default folder."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(made, "results", symlinks=True))


def test_add_takes_what_is_new_and_check_agrees(command: Command, results: Path) -> None:
    shutil.rmtree(results / "store")
    assert "no store" in command("store", "check", code=2) + command.err
    assert command("store", "add").splitlines() == [
        *(f"{name}: new, 20 samples" for name in _DAYS),
        "3 runs added, 0 known, 0 left out",
    ]
    assert command("store", "add") == "0 runs added, 3 known, 0 left out\n"
    assert command("store", "check") == f"{results / 'store'}: sound\n"
    made_run(results / "thursday", day=3)
    document = command.json("store", "check", code=1)
    assert document == {"schema": 1, "found": [f"{results / 'thursday'}: is not in the store"]}
    states = [(each["run"], each["state"]) for each in command.json("store", "add")["runs"]]
    assert states == [
        ("monday", "known"),
        ("thursday", "new"),
        ("tuesday", "known"),
        ("wednesday", "known"),
    ]


def test_a_run_that_cannot_be_added_is_named(command: Command, results: Path) -> None:
    shutil.rmtree(results / "store")
    (results / "tuesday/samples/melt.jsonl").write_text("{\n")
    assert "2 runs added, 0 known, 1 left out" in command("store", "add")
    assert command.err.startswith(f"nimc: {results}/tuesday/samples/melt.jsonl:1: ")
    assert command.err.count("\n") == 1
    assert command.json("store", "add")["left_out"] == [command.err[6:-1]]
    command("store", "add", results / "tuesday", code=2)


def test_a_store_elsewhere_takes_given_runs(
    command: Command, results: Path, tmp_path: Path
) -> None:
    shutil.rmtree(results / "store")
    command("store", "add", "--store", tmp_path / "site", results / "latest", code=2)
    assert "is a symbolic link" in command.err
    command("store", "add", "--store", tmp_path / "site", results / "monday")
    assert load_runs(tmp_path / "site")["run"].to_list() == ["monday"]
    assert not (results / "store").exists()


def test_prune_shows_first_and_removes_with_yes(command: Command, results: Path) -> None:
    nights = load_nights(results / "store")
    size_b = sum(each["size_b"] for each in command.json("runs")["runs"])
    samples = list((results / "store/samples").rglob("*.parquet"))
    size_b += sum(path.stat().st_size for path in samples)
    limit = ("--larger-than", f"{size_b - 1}B")
    assert command("store", "prune", "--larger-than", f"{size_b}B").startswith(
        "would remove with --yes: 0 runs (0 B) and 0 leftover files"
    )
    assert "monday: " in command("store", "prune", *limit)
    assert (results / "monday").is_dir()
    document = command.json("store", "prune", *limit, "--yes")
    assert [each["run"] for each in document["runs"]] == ["monday"]
    assert sorted(path.name for path in results.iterdir()) == [
        *("latest", "notes", "store", "tuesday", "wednesday"),
    ]
    # Its history stays, its samples do not, and nothing is missed.
    assert load_nights(results / "store").equals(nights)
    assert load_runs(results / "store")["run"].to_list() == list(_DAYS)
    left = scan_samples(results / "store").collect()["run"].unique(maintain_order=True)
    assert left.to_list() == ["tuesday", "wednesday"]
    assert command("store", "check") == f"{results / 'store'}: sound\n"
    command("store", "prune", "--older-than", "1s", "--yes")
    assert sorted(path.name for path in results.iterdir()) == ["latest", "notes", "store"]
    assert load_nights(results / "store").equals(nights)
    assert "0 runs" in command("store", "prune", "--older-than", "1s", "--yes")
    command("store", "prune", "--yes", code=2)
    assert command.err.startswith("nimc: --older-than, --larger-than: ")


def damage_nights(results: Path) -> str:
    nights = next((results / "store/nights").rglob("tuesday*"))
    nights.write_bytes(nights.read_bytes()[:-1])
    return f"{nights}: "


def replace_samples(results: Path) -> str:
    (file,) = (results / "tuesday/samples").glob("*.jsonl")
    file.unlink()
    file.mkdir()
    return f"{file}: Is a directory"


def add_samples(results: Path) -> str:
    grow(results / "tuesday", day=1)
    return "differs"


def raise_alarm(results: Path) -> str:
    (results / "store/alarms").mkdir()
    alarm = {"machine": "m", "runs": ["tuesday"]}
    (results / "store/alarms/1.json").write_text(json.dumps(alarm))
    return "an alarm rests on it"


@pytest.mark.parametrize("change", [damage_nights, replace_samples, add_samples, raise_alarm])
def test_prune_leaves_a_run_of_which_the_store_does_not_have_all_or_an_alarm_needs_it(
    command: Command, results: Path, change: Callable[[Path], str]
) -> None:
    shutil.rmtree(results / "store")
    shutil.rmtree(results / "tuesday")
    made_run(results / "tuesday", day=1, pairs=3)
    command("store", "add")
    reason = change(results)
    made_run(results / "new", day=3)
    out = command("store", "prune", "--older-than", "1s", "--yes")
    assert f"tuesday: stays: {reason}" in out
    assert {file.parent.name for file in results.glob("[!l]*/run.json")} == {"tuesday", "new"}


def test_prune_leaves_files_that_a_damaged_entry_may_name(command: Command, results: Path) -> None:
    entry = next((results / "store/runs").rglob("tuesday*"))
    entry.write_bytes(entry.read_bytes()[:-1])
    files = sorted(path for path in (results / "store").rglob("tuesday*"))
    assert len(files) == 3
    for path in files:
        os.utime(path, (0, 0))
    limit = ("--larger-than", "1TiB", "--yes")
    assert command("store", "prune", *limit) == "removed: 0 runs (0 B) and 0 leftover files\n"
    assert f"nimc: {entry}: " in command.err
    assert all(path.exists() for path in files)
    entry.unlink()
    assert "and 2 leftover files" in command("store", "prune", *limit)


def test_prune_leaves_a_run_in_progress(command: Command, results: Path) -> None:
    with (results / "monday/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        document = command.json("store", "prune", "--older-than", "1s", "--yes")
    (held,) = document["held"]
    assert held["run"] == "monday"
    assert "is running this campaign" in held["reason"]
    assert (results / "monday/run.json").exists()


def test_runs_are_listed_with_their_state(command: Command, results: Path) -> None:
    made_run(results / "early", day=-1, pairs=3)
    (results / "tuesday/samples/melt.jsonl").write_text("{\n")
    theirs = made_run(results / "theirs", day=3)
    (theirs / "samples/melt.jsonl").unlink()
    os.mkfifo(theirs / "samples/melt.jsonl", 0o600)
    rows = command.json("runs")["runs"]
    shown = [(row["run"], row["samples"], row["rejected"], row["state"][:10]) for row in rows]
    assert shown == [
        ("theirs", None, None, "unreadable"),
        ("tuesday", None, None, "unreadable"),
        ("early", 11, 1, "unfinished"),
        ("monday", 20, 1, "finished"),
        ("wednesday", 20, 1, "finished"),
    ]
    assert rows[3]["started_s"] == 1_780_000_000.0
    sizes = [path.stat().st_size for path in (results / "monday").rglob("*") if path.is_file()]
    assert rows[3]["size_b"] == sum(sizes)
    table = command("runs").splitlines()
    (monday,) = (line for line in table if line.split()[0] == "monday")
    assert monday.split()[:3] == ["monday", "20", "1"]


def lost(nights: int) -> pl.DataFrame:
    """Nights, the last three of which are 10 % slower."""
    values = 100 * np.exp(0.01 * np.random.default_rng(27).standard_normal(nights))
    values[-3:] *= 1.1
    return nights_table(*night_rows(values.tolist(), arm="off"))


class Store:
    """Nights in place of a store's: `nimc alarms` on them, with its exit status."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
        self.nights = lost(82)
        self.runs = runs_table({})
        self.command = command
        monkeypatch.setattr(history, "load_nights", self._load("nights"))
        monkeypatch.setattr(history, "load_runs", self._load("runs"))

    def _load(self, table: str):
        def load(_: Path, *, machine: str | None) -> pl.DataFrame:
            frame = getattr(self, table)
            return frame if machine is None else frame.filter(machine=machine)

        return load

    def __call__(self, *words: object, code: int) -> str:
        return self.command("alarms", *words, code=code)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, command: Command) -> Store:
    return Store(monkeypatch, command)


def test_an_alarm_of_the_last_night_is_exit_code_1(store: Store) -> None:
    store.runs = runs_table(
        {f"run{n:03}": json.dumps({"kernel": "5" if n < 79 else "6"}) for n in range(82)}
    )
    text = " ".join(store(code=1).split())
    assert text.startswith("stream off fom ")
    for fact in ("suspected worse since 2025-03-26", "kernel: 5 -> 6",
                 "5 times in one night", "82 nights",
                 "nimc run nightly --machine hpc --case stream --fresh --nodelist n1"):  # fmt: skip
        assert fact in text
    assert "raised 2025-03-28" in store("-v", code=1)
    later = night_rows([*[None] * 82, 110.0], arm="off")
    store.nights = pl.concat([store.nights, nights_table(*later)])
    assert "suspected" in store(code=0)  # not of the last night


def test_an_alarm_is_acknowledged_by_the_user_with_a_reason(store: Store, tmp_path: Path) -> None:
    at = ("--store", tmp_path)
    (alarm,) = json.loads(store(*at, "--json", code=1))["alarms"]
    assert alarm["acknowledged"] is None
    (name,) = re.findall(r"--acknowledge (\S+) --reason", store(*at, code=1))
    assert name.startswith(f"{alarm['night']}-")
    store(*at, "--acknowledge", name[:13], "--reason", "new kernel\x1b[2J", code=0)
    user = pwd.getpwuid(os.geteuid()).pw_name
    text = " ".join(store(*at, "-v", code=0).split())
    assert f"suspected worse since 2025-03-26, acknowledged by {user}" in text
    assert "new kernel\\x1b[2J" in text
    assert "--acknowledge" not in text
    (alarm,) = json.loads(store(*at, "--json", code=0))["alarms"]
    assert (alarm["acknowledged"]["by"], alarm["state"]) == (user, "suspected")


@pytest.mark.parametrize(
    "words",
    [
        ["--acknowledge", "2025-03-28"],
        ["--acknowledge", "2025-03-28", "--reason", "x" * 1001],
        ["--acknowledge", "2025-03-27", "--reason", "why"],
        ["--acknowledge", "2025-03-28", "--reason", "why", "--json"],
        ["--reason", "why"],
    ],
)
def test_what_cannot_be_acknowledged_is_refused(
    store: Store, tmp_path: Path, words: list[str]
) -> None:
    store("--store", tmp_path, *words, code=2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("columns", "alarm", "watched"),
    [(80, "1.111]", "unwatched"), (120, "worse since 2025-03-26", "1 change  nightly")],
)
def test_a_row_is_one_line_that_fits(
    store: Store, monkeypatch: pytest.MonkeyPatch, columns: int, alarm: str, watched: str
) -> None:
    monkeypatch.setattr("nimc.cli.document.columns", lambda: columns)
    case, quantity = "lammps-of-8192-ranks-on-512-nodes", "counter:memory stalls"
    store.nights = lost(82).with_columns(case=pl.lit(case), quantity=pl.lit(quantity))
    lines = store(code=1).splitlines()
    rows = [row for row in lines if row.startswith(f"{case} off {quantity} ") and "|" not in row]
    assert max(map(len, rows)) <= columns
    assert len(rows) == 2
    assert rows[0].endswith(alarm)
    assert rows[1].endswith(watched)


def test_rows_name_the_machine_if_there_are_several(store: Store) -> None:
    store.nights = pl.concat([lost(82), lost(82).with_columns(machine=pl.lit("other"))])
    rows = [row for row in store(code=1).splitlines() if "unwatched  " in row]
    assert [row[: row.index(" stream off fom  ")] for row in rows] == ["hpc", "other"]


def test_a_long_command_to_confirm_can_be_pasted(store: Store) -> None:
    store.nights = lost(82).with_columns(case=pl.lit("a-case-of-a-long-name-" + "x" * 30))
    lines = store(code=1).splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("    nimc run "))
    assert max(map(len, lines)) <= 80
    pasted = shlex.split("\n".join(lines[at:]).replace("\\\n", ""))
    assert pasted[-3:] == ["--fresh", "--nodelist", "n1"]


def test_what_the_same_runs_confirm_is_one_command(store: Store) -> None:
    store.nights = pl.concat([lost(82), lost(82).with_columns(arm=pl.lit("on"))])
    text = store(code=1)
    assert text.count("nimc run ") == 1
    named = " ".join(text[text.index("Next: to confirm") :].split())
    assert all(f"hpc stream {arm} fom" in named for arm in ("off", "on"))


def test_the_document(store: Store) -> None:
    document = json.loads(store("--json", code=1))
    assert (document["within_nights"], document["power"]) == (5, 0.8)
    assert [each["state"] for each in document["alarms"]] == ["suspected"]
    assert document["confirmations"][0]["repeats"] == 5
    assert [each["case"] for each in document["watched"]] == ["stream"]
    text = (history.ROOT / "docs/alarms.md").read_text()
    (alarm,), (watch,) = document["alarms"], document["watched"]
    keys = {*document, *alarm, *document["confirmations"][0], *watch, *watch["changes"][0]}
    assert {key for key in keys if f"`{key}`" not in text} == set()


def test_a_level_that_is_worse_than_a_month_ago_is_shown(store: Store) -> None:
    """A wave of one year: the last 30 nights went up by 1 % x sin(29.6 degrees) = 0.5 %."""
    nights = np.arange(434)
    wave = 0.01 * np.sin(2 * np.pi * (nights - 434) / 365.25)
    values = 100 * np.exp(wave + 0.005 * np.random.default_rng(1).standard_normal(434))
    store.nights = nights_table(*night_rows(values.tolist(), arm="off"))
    text = " ".join(store(code=0).split())
    pattern = r"stream off fom \(nightly\): ([\d.]+)% worse than a month ago, as a year"
    (found,) = re.findall(pattern, text)
    assert float(found) == pytest.approx(0.5, abs=0.15)


def test_references_are_a_patch_and_nothing_is_written(store: Store) -> None:
    values = (100 * np.exp(0.01 * np.random.default_rng(27).standard_normal(80))).tolist()
    store.nights = nights_table(*night_rows(values, machine="localhost", arm="off"))
    site = history.ROOT / "site/localhost.yaml"
    before = site.read_text()
    out = store("--references", "--machine", "localhost", code=0)
    assert "+++ b/site/localhost.yaml" in out
    (line,) = [line for line in out.splitlines() if line.startswith("+  stream: ")]
    assert float(line.split()[-1]) == pytest.approx(100, rel=0.005)
    assert site.read_text() == before


@pytest.mark.parametrize("words", [["--references"], ["--references", "--machine", "nowhere"]])
def test_references_need_a_known_machine(store: Store, words: list[str]) -> None:
    store(*words, code=2)
    assert "machine" in store.command.err


def test_prune_never_removes_what_an_alarm_rests_on(command: Command, results: Path) -> None:
    (results / "store/alarms").mkdir()
    alarm = {"machine": "m", "runs": ["monday", "wednesday"]}
    (results / "store/alarms/1.json").write_text(json.dumps(alarm))
    for limit in (("--older-than", "1s"), ("--larger-than", "1B")):
        out = command("store", "prune", *limit, "--yes")
        assert "monday: stays: an alarm rests on it" in out
    assert (results / "monday/run.json").exists()
    assert not (results / "tuesday").exists()
    left = scan_samples(results / "store").collect()["run"].unique(maintain_order=True)
    assert left.to_list() == ["monday", "wednesday"]
    (results / "store/alarms/2.json").write_text("{")
    command("store", "prune", "--older-than", "1s", "--yes", code=2)
    assert (results / "monday/run.json").exists()
    command("store", "prune", "--yes", code=2)
    assert command.err.startswith("nimc: --older-than, --larger-than: ")
