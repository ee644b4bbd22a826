"""Options of a minicluster, and the names and paths that follow from them."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from records.errors import InputError
from testbed.spec import ClusterLayout, Spec, default_state
from tests.messages import assert_message


def test_the_last_nodes_are_origins() -> None:
    spec = Spec(fabric="veth", nodes=4, origins=1)
    assert [(node.name, node.role) for node in spec.members()] == [
        ("node1", "target"),
        ("node2", "target"),
        ("node3", "target"),
        ("node4", "origin"),
    ]


def test_targets_origins_and_all_nodes_are_partitions() -> None:
    assert Spec(fabric="veth", nodes=4, origins=1).partitions() == {
        "compute": ["node1", "node2", "node3"],
        "origin": ["node4"],
        "all": ["node1", "node2", "node3", "node4"],
    }
    assert Spec(fabric="veth", nodes=2, origins=0).partitions() == {
        "compute": ["node1", "node2"],
        "all": ["node1", "node2"],
    }


VALID = Spec(fabric="veth", nodes=4, origins=1)


@pytest.mark.parametrize(
    ("changes", "option", "allowed"),
    [
        ({"fabric": "ib"}, "--fabric ib", ["veth", "rxe"]),
        ({"nodes": 0}, "--nodes 0", ["1", "200"]),
        ({"nodes": 201}, "--nodes 201", ["1", "200"]),
        ({"origins": 4}, "--origins 4", ["0", "3"]),
        ({"origins": -1}, "--origins -1", ["0", "3"]),
        ({"numa": 3, "fabric": "rxe"}, "--numa 3", ["1", "2"]),
        ({"rails": 3}, "--rails 3", ["1", "2"]),
        ({"cores": 3, "fabric": "rxe"}, "--cores 3", ["1", "2", "4", "8"]),
        ({"memory_mib": 64}, "--memory 64", ["384 MiB"]),
    ],
)
def test_values_that_are_not_allowed_are_refused_by_their_option(
    changes: dict[str, object], option: str, allowed: list[str]
) -> None:
    with pytest.raises(InputError) as error:
        replace(VALID, **changes)  # type: ignore[arg-type]
    assert_message(str(error.value), option, *allowed)


def test_nodes_over_veth_have_no_numa_nodes_of_their_own() -> None:
    with pytest.raises(InputError) as error:
        replace(VALID, numa=2)
    assert_message(str(error.value), "--numa 2", "--fabric veth", allowed="--fabric rxe")


def test_names_depend_on_the_state_folder_only() -> None:
    layout = ClusterLayout.from_state(Path("/tmp/a"))
    same_layout = ClusterLayout.from_state(Path("/tmp/../tmp/a"))
    other_layout = ClusterLayout.from_state(Path("/tmp/b"))
    assert layout.tag == same_layout.tag != other_layout.tag
    assert layout.netns("node1") == f"{layout.tag}-node1"


def test_the_tag_can_be_the_name_of_a_link() -> None:
    """Linux allows 16 bytes for the name of a link (IFNAMSIZ), the final zero included."""
    assert 1 <= len(ClusterLayout.from_state(Path("/tmp/a")).tag) <= 15


@pytest.mark.parametrize("folder", ["/tmp/" + "x" * 80, "/tmp/a b", "/tmp/a=b"])
def test_state_folders_with_unusable_paths_are_refused(folder: str) -> None:
    with pytest.raises(InputError) as error:
        ClusterLayout.from_state(Path(folder))
    assert_message(str(error.value), f"--state {folder}")


@pytest.mark.parametrize("is_session_of_systemd", [True, False])
def test_the_default_state_folder_is_named_by_the_users_number_in_every_session(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_session_of_systemd: bool
) -> None:
    """SSH sets the variable for root, and `sudo` removes it."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    if is_session_of_systemd:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert default_state() == Path(f"/tmp/nimc-minicluster-{os.getuid()}")
