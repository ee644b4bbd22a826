"""state.json, the folder it lives in, its lock, and the list of needs."""

import fcntl
import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from records.errors import InputError, MachineError
from testbed import cluster, needs, state
from testbed.spec import SITE_FOLDER, ClusterLayout
from tests.nimc.minicluster.states import STATE


def test_written_and_read_back(tmp_path: Path) -> None:
    layout = ClusterLayout(tmp_path)
    state.write(layout, STATE)
    assert state.read(layout) == STATE


SHAPED = json.dumps(asdict(STATE)).replace('"origins": 1', '"origins": 3')


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"spec": {"fabric": "veth"}}', SHAPED])
def test_a_torn_state_is_no_state(tmp_path: Path, text: str) -> None:
    layout = ClusterLayout(tmp_path)
    assert state.read(layout) is None
    layout.state_json.write_text(text)
    assert state.read(layout) is None


def test_a_folder_of_another_kind_or_user_is_never_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match=r"^--state "):
        state.claim(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
    folder = tmp_path / "new" / "s"
    state.claim(folder)
    (folder / "log").mkdir()
    state.claim(folder)  # again
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(InputError, match=r"^--state: .*/link is a symbolic link"):
        ClusterLayout.from_state(tmp_path / "link")
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    for take in (state.claim, ClusterLayout.from_state):
        with pytest.raises(InputError, match=r"^--state: .*/s belongs to "):
            take(folder)


def test_without_root_it_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for call in (
        lambda: cluster.up(STATE.spec, ClusterLayout(tmp_path)),
        lambda: cluster.down(ClusterLayout(tmp_path)),
    ):
        with pytest.raises(MachineError, match="root is required") as caught:
            call()
        assert caught.value.exit_code == 3


def test_needs_are_complete_rows() -> None:
    rows = needs.parse((SITE_FOLDER / "needs.txt").read_text())
    assert {row.fabric for row in rows} == {"all", "rxe"}
    assert {"slurmctld", "slurmdbd", "munged", "mariadbd"} <= {row.program_or_file for row in rows}
    assert needs.parse("# a b c d\n\nall x y z # why\n") == [
        needs.Requirement("all", "x", "y", "z")
    ]


def test_a_long_wait_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The holder lets go when the waiting process asks without a time limit."""
    monkeypatch.setattr(state, "SILENT_WAIT_S", 0.2)
    monkeypatch.setattr(state, "LOCK", tmp_path / "lock")
    holder = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    real = fcntl.flock
    real(holder, fcntl.LOCK_EX)

    def flock(handle: int, operation: int) -> None:
        if operation == fcntl.LOCK_EX:
            os.close(holder)
        real(handle, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with state.locked():
        pass
    err = capsys.readouterr().err
    assert err == (
        f"nimc: waits for another 'minicluster up' or 'down', which holds {tmp_path}/lock\n"
    )
