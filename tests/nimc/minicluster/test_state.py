"""A minicluster's state.json, its folder, the lock of `up` and `down`, and required programs."""

import fcntl
import json
import os
import re
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from records.errors import InputError, MachineError
from testbed import cluster, needs, state
from testbed.spec import CHECKOUT, SITE_FOLDER, ClusterLayout
from tests.nimc.checkouts import program
from tests.nimc.minicluster.states import STATE


def test_a_written_state_is_read_unchanged(tmp_path: Path) -> None:
    layout = ClusterLayout(tmp_path)
    state.write(layout, STATE)
    assert state.read(layout) == STATE


#: A complete document with an impossible value: as many origins as nodes.
IMPOSSIBLE = json.dumps(asdict(STATE)).replace('"origins": 1', '"origins": 3')


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"spec": {"fabric": "veth"}}', IMPOSSIBLE])
def test_a_missing_or_invalid_state_is_ignored(tmp_path: Path, text: str) -> None:
    layout = ClusterLayout(tmp_path)
    assert state.read(layout) is None
    layout.state_json.write_text(text)
    assert state.read(layout) is None


def test_a_folder_with_other_files_or_of_another_user_is_refused_as_state_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match=r"^--state "):
        state.claim(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
    folder = tmp_path / "new" / "s"
    state.claim(folder)
    (folder / "log").mkdir()
    state.claim(folder)  # a state folder can be claimed again
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(InputError, match=r"^--state: .*/link is a symbolic link"):
        ClusterLayout.from_state(tmp_path / "link")
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    for take in (state.claim, ClusterLayout.from_state):
        with pytest.raises(InputError, match=r"^--state: .*/s belongs to "):
            take(folder)


def test_a_user_other_than_root_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for call in (
        lambda: cluster.up(STATE.spec, ClusterLayout(tmp_path)),
        lambda: cluster.down(ClusterLayout(tmp_path)),
    ):
        with pytest.raises(MachineError, match="root is required") as caught:
            call()
        assert caught.value.exit_code == 3


def test_the_list_of_required_programs_is_complete() -> None:
    rows = needs.parse((SITE_FOLDER / "needs.txt").read_text())
    assert {row.fabric for row in rows} == {"all", "rxe"}
    assert {"slurmctld", "slurmdbd", "munged", "mariadbd"} <= {row.program_or_file for row in rows}
    # A program that nothing starts is not required: on RHEL, mpirun is not on PATH.
    folders = ("testbed", "site/minicluster", "records/slurm", "conductor/injectors")
    files = [path for folder in folders for path in (CHECKOUT / folder).iterdir()]
    text = "\n".join(path.read_text() for path in files if path.suffix in (".py", ".sh"))
    programs = {row.program_or_file for row in rows if not row.program_or_file.startswith("/")}
    assert {name for name in programs if not re.search(rf"\b{name}\b", text)} == set()
    assert needs.parse("# a b c d\n\nall x y z # why\n") == [
        needs.Requirement("all", "x", "y", "z")
    ]


def test_without_debians_kernel_the_other_fabric_is_named(tmp_path: Path) -> None:
    """Ubuntu has no package `linux-image-amd64`; only the guests of `rxe` boot its kernel."""
    shutil.copy(SITE_FOLDER / "install.sh", tmp_path)
    row = "rxe /var/cache/nimc-minicluster/absent/vmlinuz-* linux-image-amd64 kernel-core\n"
    (tmp_path / "needs.txt").write_text(row)
    for name, line in {"id": "echo 0", "apt-get": "exit 9", "apt-cache": "exit 0"}.items():
        program(tmp_path / "bin", name, line)
    done = subprocess.run(
        ["sh", str(tmp_path / "install.sh")],
        capture_output=True,
        text=True,
        env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"},
    )
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "linux-image-amd64" in done.stderr
    assert "--fabric veth" in done.stderr


def test_a_long_wait_for_the_lock_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this test, the holder releases the lock when the waiting process waits without limit."""
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
