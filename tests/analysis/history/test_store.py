"""Writers that are killed or work at once, and files that cannot be used."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from analysis.history import files
from analysis.history import store as store_module
from analysis.history.store import (
    StoreEntry,
    add_run,
    check_store,
    load_nights,
    load_runs,
    scan_samples,
)
from analysis.history.tables import RUNS
from nimc.base.errors import InputError
from tests.analysis.history.made import grow, made_run
from tests.analysis.synthetic import rechain

_ADD = """
import os, signal, sys
from pathlib import Path
from analysis.history import store
left, rename = int(sys.argv[3]), os.replace
def replace(*names, **folders):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(*names, **folders)
os.replace = replace
print("ready", flush=True)
sys.stdin.readline()
print(store.add_run(Path(sys.argv[1]), Path(sys.argv[2])).state)
"""


def adder(store: Path, run: Path, killed_at: int = 0) -> subprocess.Popen[str]:
    """A process that adds a run once it reads a line; killed before that rename."""
    command = [sys.executable, "-c", _ADD, str(store), str(run), str(killed_at)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def stored(store: Path) -> list[Path]:
    return sorted(path for path in store.rglob("*") if path.is_file())


def of_table(store: Path, table: str) -> Path:
    (path,) = stored(store / table)
    return path


@pytest.fixture(scope="module")
def two_nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, and the store of both."""
    results = tmp_path_factory.mktemp("two")
    for day, name in enumerate(("monday", "tuesday")):
        add_run(results / "store", made_run(results / name, day=day))
    return results


def test_two_processes_that_add_one_run_make_one_entry(tmp_path: Path) -> None:
    store, run = tmp_path / "store", made_run(tmp_path / "monday")
    both = [adder(store, run) for _ in range(2)]
    for each in both:
        each.stdin.write("go\n")
        each.stdin.flush()
    assert {each.communicate()[0].strip() for each in both} <= {"new", "known"}
    assert [each.returncode for each in both] == [0, 0]
    assert [len(stored(store / table)) for table in files.TABLES] == [1, 1, 1]
    assert load_runs(store).height == 1
    assert check_store(store, tmp_path) == []


@pytest.mark.parametrize("renames", [1, 3])
def test_a_killed_writer_leaves_nothing_that_is_read(tmp_path: Path, renames: int) -> None:
    """The files of an entry are renamed one by one, that of `runs` last."""
    store, run = tmp_path / "store", made_run(tmp_path / "monday")
    process = adder(store, run, killed_at=renames)
    process.communicate("go\n")
    assert process.returncode == -signal.SIGKILL
    found = stored(store)
    assert sum(path.name.endswith(".partial") for path in found) == 1
    assert len(found) == renames
    assert load_runs(store).is_empty()
    assert load_nights(store).is_empty()
    assert scan_samples(store).collect().is_empty()
    assert check_store(store, tmp_path) == [f"{run}: is not in the store"]
    assert add_run(store, run).state == "new"
    assert check_store(store, tmp_path) == []


def test_a_run_that_grew_replaces_its_earlier_entry(tmp_path: Path) -> None:
    store, run = tmp_path / "store", made_run(tmp_path / "monday", pairs=3)
    assert add_run(store, run).samples == 11
    earlier = of_table(store, "runs")
    text = earlier.read_bytes()
    assert check_store(store, tmp_path) == []
    grow(run)
    assert check_store(store, tmp_path) == [f"{run}: differs from what the store has of it"]
    again = add_run(store, run)
    assert (again.state, again.samples) == ("grew", 20)
    assert add_run(store, run).state == "known"
    # A slow writer of the earlier samples, which comes last, changes nothing.
    earlier.unlink()
    earlier.write_bytes(text)
    assert load_runs(store)["samples"].to_list() == [20]
    medians = load_nights(store).filter(arm="off", quantity="fom")["value"]
    assert medians.to_list() == [12.5]
    assert scan_samples(store).collect().height == 20


def test_the_entry_with_most_samples_counts_then_the_finished_one() -> None:
    """A finished run that is measured further has no end until it is finished again."""
    entries = [
        StoreEntry(Path(), {"samples": n, "finished_s": end, "outcome": None}, Path(), None)
        for n, end in ((11, 9.0), (20, None), (20, 5.0), (20, 7.0))
    ]
    assert sorted(entries, key=lambda each: each.knows) == entries


def test_an_outcome_is_added_later(tmp_path: Path) -> None:
    store, run = tmp_path / "store", made_run(tmp_path / "monday")
    seen = []
    for outcome in (None, "slower", None):
        state = add_run(store, run, outcome=outcome).state
        seen += [(state, *load_runs(store)["outcome"])]
    assert seen == [("new", None), ("grew", "slower"), ("known", "slower")]


def test_a_run_that_lost_samples_has_faults_or_is_of_others_is_refused(tmp_path: Path) -> None:
    store, run = tmp_path / "store", made_run(tmp_path / "monday")
    add_run(store, run)
    few = made_run(tmp_path / "copy" / "monday", pairs=3)
    with pytest.raises(InputError, match=r"samples are not those .* \(11, and 20 in the store\)$"):
        add_run(store, few)
    path = run / "samples/melt.jsonl"
    path.write_text(path.read_text().replace('"workload": "melt"', '"workload": "x"', 1))
    rechain(run)
    with pytest.raises(InputError, match=r"not to be trusted; .*melt.jsonl:\d+: workload: "):
        add_run(tmp_path / "new", run)
    (few / "samples").chmod(0o775)
    with pytest.raises(InputError, match=r"samples can be written by others \(mode 775\)"):
        add_run(tmp_path / "new", few)
    assert not (tmp_path / "new").exists()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def tamper(path: Path) -> None:
    text = path.read_bytes()
    path.write_bytes(text.replace(b"monday", b"sunday"))
    assert text != path.read_bytes()


def give_away(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(path, 65001, 65001)


def link(path: Path) -> None:
    elsewhere = path.parents[5] / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


_CHANGED = "its content is not what its name says: torn, or changed"


@pytest.mark.parametrize(
    ("table", "spoil", "why"),
    [
        *((table, cut, _CHANGED) for table in files.TABLES),
        ("runs", tamper, _CHANGED),
        ("samples", give_away, "belongs to 65001"),
        ("nights", lambda path: path.chmod(0o664), "can be written by others (mode 664)"),
        ("runs", link, "is a symbolic link"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_left_out(
    tmp_path: Path, two_nights: Path, table: str, spoil: Callable[[Path], None], why: str
) -> None:
    results = shutil.copytree(two_nights, tmp_path / "results")
    store = results / "store"
    (path,) = store.glob(f"{table}/*/*/*/monday-*")
    spoil(path)
    lines: list[str] = []
    read = {
        "runs": lambda: load_runs(store, left_out=lines.append),
        "nights": lambda: load_nights(store, left_out=lines.append),
        "samples": lambda: scan_samples(store, left_out=lines.append).collect(),
    }
    assert read[table]()["run"].unique().to_list() == ["tuesday"]
    assert lines == [f"{path}: {why}"]
    assert f"{path}: {why}" in check_store(store, results)


@pytest.fixture
def one_night(tmp_path: Path) -> Path:
    """A store of the run `monday`, which is beside it."""
    add_run(tmp_path / "store", made_run(tmp_path / "monday"))
    return tmp_path / "store"


def left_out(store: Path) -> list[str]:
    """What is named of a store of which no run can be used."""
    lines: list[str] = []
    assert load_runs(store, left_out=lines.append).is_empty()
    return lines


def test_what_is_no_entry_of_its_folder_is_named(
    one_night: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = of_table(one_night, "runs")
    other = path.parent.parent / "month=2031-01" / path.name
    other.parent.mkdir()
    path.rename(other)
    (other.parent / "notes.txt").write_text("mine")
    named = [
        f"{other}: must be in {path.parent}",
        f"{other.parent / 'notes.txt'}: not a file of the store",
    ]
    assert left_out(one_night) == named
    # Without another place on standard error.
    assert load_runs(one_night).is_empty()
    assert capsys.readouterr().err == "".join(f"nimc: {line}\n" for line in named)
    folder = one_night / "runs/machine=m"
    folder.chmod(0o777)
    assert left_out(one_night) == [f"{folder}: can be written by others (mode 777)"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"run": ".."}, "'..' found; allowed: plain names without '/' and control characters"),
        ({"run": "a/b"}, "'a/b' found; allowed: plain names without '/' and control characters"),
        ({"samples": None}, "samples: null found; allowed: a value"),
        ({"started_s": 1e300}, "timestamp out of range for platform time_t"),
        ({"started_s": 0.0}, "must be in STORE/runs/machine=m/campaign=nightly/month=1970-01"),
    ],
)
def test_an_entry_with_impossible_values_is_named(
    one_night: Path, change: dict[str, object], why: str
) -> None:
    entry = of_table(one_night, "runs")
    row = pl.read_parquet(entry).to_dicts()[0] | change
    entry.unlink()
    frame = pl.DataFrame([row], schema=RUNS)
    path = files.write(entry.parent, "monday", frame, {"nights": "n.parquet", "samples": ""})
    assert left_out(one_night) == [f"{path}: {why}".replace("STORE", str(one_night))]


def test_damaged_nights_and_lost_samples_are_made_again(one_night: Path) -> None:
    cut(of_table(one_night, "nights"))
    of_table(one_night, "samples").unlink()
    assert len(check_store(one_night, one_night.parent)) == 2
    add_run(one_night, one_night.parent / "monday")
    assert check_store(one_night, one_night.parent) == []


def test_names_that_mean_something_in_paths(tmp_path: Path) -> None:
    store = tmp_path / "store"
    run = made_run(tmp_path / ".a=b %2F*", machine="..=x?")
    add_run(store, run)
    assert load_runs(store, machine="..=x?")["run"].to_list() == [".a=b %2F*"]
    assert load_runs(store, machine="..").is_empty()
    assert add_run(store, run).state == "known"
    # As other readers of such trees take it.
    tree = pl.scan_parquet(store / "nights/**/*.parquet", hive_partitioning=True)
    assert tree.select("machine").collect()["machine"].unique().to_list() == ["..=x?"]


def test_machine_and_campaign_choose(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for day, machine in enumerate(("east", "west")):
        add_run(store, made_run(tmp_path / f"{machine}-{day}", day=day, machine=machine))
    assert load_runs(store)["machine"].to_list() == ["east", "west"]
    assert load_nights(store, machine="west")["run"].unique().to_list() == ["west-1"]
    assert load_nights(store, campaign="weekly").is_empty()
    assert scan_samples(store, machine="east").collect().height == 20
    with pytest.raises(InputError, match=r"there is no store; 'nimc store add' makes it$"):
        load_runs(tmp_path / "none")


def test_files_of_earlier_versions_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They recorded no steal and no head, and what is not recorded any more."""
    store, runs = tmp_path / "store", [made_run(tmp_path / name) for name in ("monday", "tuesday")]
    with monkeypatch.context() as old:
        write = files.write

        def as_it_was(folder: Path, name: str, frame: pl.DataFrame, more: dict[str, str]) -> Path:
            if "samples" in folder.parts:
                frame = frame.drop("steal_share").with_columns(odd=pl.lit(1))
            return write(folder, name, frame, more)

        old.setattr(files, "write", as_it_was)
        old.setattr(store_module, "RUNS", {k: v for k, v in RUNS.items() if k != "head"})
        add_run(store, runs[0])
    add_run(store, runs[1])
    samples = scan_samples(store).collect()
    assert samples.height == 40
    assert samples.filter(run="monday")["steal_share"].null_count() == 20
    assert "odd" not in samples.columns
    head = json.loads((runs[1] / "run.json").read_text())["head"]
    heads = dict(load_runs(store).select("run", "head").iter_rows())
    assert heads == {"monday": None, "tuesday": head}


@pytest.mark.parametrize("other", [0, 2])
def test_another_schema_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: int
) -> None:
    store = tmp_path / "store"
    monkeypatch.setattr(files, "SCHEMA_VERSION", other)
    add_run(store, made_run(tmp_path / "monday"))
    monkeypatch.undo()
    for read in (load_runs, load_nights, scan_samples):
        with pytest.raises(InputError, match=f"schema: {other} found; allowed: 1"):
            read(store)
