"""Which runs go: by hand."""

import os
from pathlib import Path

import pytest

from analysis.history.store import (
    Stored,
    StoreEntry,
    add_run,
    alarmed_runs,
    inventory,
    leftovers,
    read_entries,
    to_prune,
)
from nimc.base.errors import InputError
from tests.analysis.history.made import grow, made_run

_NOW_S = 1e9


def stored(run: str, started_s: float, size_b: int, held: str | None = None) -> Stored:
    row = {"machine": "m", "run": run, "started_s": started_s}
    return Stored(StoreEntry(Path(run), row, Path(), None), None, size_b, held)


#: 100 bytes each, and one of which nothing is left.
_RUNS = [
    stored("c", 3, 100),
    stored("a", 1, 100),
    stored("b", 2, 100, "an alarm"),
    stored("z", 0, 0),
]


@pytest.mark.parametrize(
    ("limits", "names"),
    [
        ((None, None), []),
        ((2.5, None), ["a", "b"]),
        ((2, None), ["a"]),
        ((99, None), ["a", "b", "c"]),
        ((None, 300), []),
        ((None, 299), ["a"]),
        # `b` stays, so `c` has to go.
        ((None, 199), ["a", "b", "c"]),
        ((1.5, 199), ["a", "b", "c"]),
    ],
)
def test_the_oldest_go_first_and_one_that_is_held_frees_nothing(
    limits: tuple[float | None, int | None], names: list[str]
) -> None:
    assert [each.entry.row["run"] for each in to_prune(_RUNS, *limits)] == names


def alarm(store: Path, text: str) -> Path:
    path = store / "alarms" / "a.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        *((text, 0o644) for text in ("{}", "[]", '{"machine": "m", "runs": "a"}', "{")),
        ('{"machine": "m", "runs": []}', 0o666),
    ],
)
def test_an_alarm_that_cannot_be_read_or_is_of_others_stops_everything(
    tmp_path: Path, text: str, mode: int
) -> None:
    assert alarmed_runs(tmp_path) == set()
    path = alarm(tmp_path, text)
    path.chmod(mode)
    with pytest.raises(InputError, match=str(path)):
        alarmed_runs(tmp_path)


def test_the_inventory_says_what_there_is_and_what_is_held(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for day, name in enumerate(("monday", "tuesday", "wednesday")):
        add_run(store, made_run(tmp_path / name, day=day))
    alarm(store, '{"machine": "m", "runs": ["monday"]}')
    (tmp_path / "tuesday/samples").chmod(0o777)
    (tmp_path / "wednesday").rename(tmp_path.parent / f"{tmp_path.name}-away")
    entries = read_entries(store, None, None, pytest.fail)
    found = inventory(store, entries, tmp_path)
    assert [(each.folder, each.held) for each in found] == [
        (tmp_path / "monday", "an alarm rests on it"),
        (tmp_path / "tuesday", "is not all your own: samples can be written by others (mode 777)"),
        (None, None),
    ]
    samples = entries[2].samples
    assert found[2].size_b == samples.stat().st_size


def test_leftovers_are_what_no_entry_uses_a_day_later(tmp_path: Path) -> None:
    store, run = tmp_path / "store", made_run(tmp_path / "monday", pairs=3)
    add_run(store, run)
    earlier = {path for path in store.rglob("*") if path.is_file()}
    add_run(store, grow(run))
    partial = next(iter(earlier)).parent / ".0123.partial"
    partial.touch()
    entries = read_entries(store, None, None, pytest.fail)
    assert list(leftovers(store, entries, partial.stat().st_mtime + 3600)) == []
    for path in store.rglob("*"):
        os.utime(path, (_NOW_S, _NOW_S))
    assert set(leftovers(store, entries, _NOW_S + 86_401)) == {*earlier, partial}
