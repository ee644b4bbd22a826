"""state.json, the folder it lives in, and the list of needs."""

import json
import os
from pathlib import Path

import pytest

from nimc.base.errors import InputError, MachineError
from testbed import cluster, needs, state
from testbed.spec import SITE, ClusterLayout, Spec
from testbed.state import State

STATE = State(Spec("rxe", 3, 1, numa=2, shares=("/srv/results",)), "up", "10.77.9", 1, 900, "tcg")


def test_written_and_read_back(tmp_path: Path) -> None:
    layout = ClusterLayout(tmp_path)
    state.write(layout, STATE)
    assert state.read(layout) == STATE


def test_what_machine_files_read(tmp_path: Path) -> None:
    document = STATE.as_dict(ClusterLayout(tmp_path))
    assert document["nodes"][2] == {
        "name": "node3",
        "role": "origin",
        "address": "10.77.9.3",
        "interface": "eth0",
        "rdma_device": "rxe0",
        "cpus": 1,
        "memory_mib": 900,
        "numa_nodes": 2,
    }
    assert document["slurm_conf"] == f"{tmp_path}/slurm.conf"


SHAPED = json.dumps(STATE.as_dict(ClusterLayout(Path("/s")))).replace('"origins"', '"other"')


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"spec": {"fabric": "veth"}}', SHAPED])
def test_a_torn_state_is_no_state(tmp_path: Path, text: str) -> None:
    layout = ClusterLayout(tmp_path)
    assert state.read(layout) is None
    layout.state_json.write_text(text)
    assert state.read(layout) is None


def test_a_folder_of_the_users_is_never_taken(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match=r"^--state "):
        state.claim(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_of_someone_else_is_never_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    state.claim(tmp_path / "s")
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(InputError, match=r"^--state: .*/s belongs to "):
        state.claim(tmp_path / "s")
    with pytest.raises(InputError, match=r"^--state: .*/s belongs to "):
        ClusterLayout.of(tmp_path / "s")


def test_a_claimed_folder_may_be_claimed_again_and_a_link_to_it_is_not_followed(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "new" / "state"
    state.claim(folder)
    (folder / "log").mkdir()
    state.claim(folder)
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(InputError, match=r"^--state: .*/link is a symbolic link"):
        ClusterLayout.of(tmp_path / "link")


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
    rows = needs.parse((SITE / "needs.txt").read_text())
    assert {row.fabric for row in rows} == {"all", "rxe"}
    assert {"slurmctld", "slurmdbd", "munged", "mariadbd"} <= {row.thing for row in rows}
    assert needs.parse("# a b c d\n\nall x y z # why\n") == [
        needs.Requirement("all", "x", "y", "z")
    ]
