"""What may be asked, and what follows from it."""

from pathlib import Path

import pytest

from records.errors import InputError
from testbed.spec import ClusterLayout, Spec, default_state


def test_the_last_nodes_are_origins() -> None:
    spec = Spec(fabric="veth", nodes=4, origins=1)
    names = ["node1", "node2", "node3", "node4"]
    roles = ["target", "target", "target", "origin"]
    assert [(n.name, n.role) for n in spec.members()] == list(zip(names, roles, strict=True))
    assert spec.partitions() == {"compute": names[:3], "origin": names[3:], "all": names}
    assert set(Spec(fabric="veth", nodes=2, origins=0).partitions()) == {"compute", "all"}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"fabric": "ib"}, "--fabric ib: allowed are veth, rxe"),
        ({"nodes": 0}, "--nodes 0"),
        ({"nodes": 201}, "--nodes 201: allowed are 1 to 200"),
        ({"origins": 4}, "--origins 4: allowed are 0 to 3"),
        ({"origins": -1}, "--origins -1"),
        ({"numa": 3, "fabric": "rxe"}, "--numa 3"),
        ({"numa": 2}, "--numa 2: cannot be combined with --fabric veth"),
        ({"rails": 3}, "--rails 3: allowed are 1, 2"),
        ({"cores": 3, "fabric": "rxe"}, "--cores 3: allowed are 1, 2, 4, 8"),
        ({"memory_mib": 64}, "--memory 64"),
    ],
)
def test_wrong_requests_name_the_option(wrong: dict[str, object], field: str) -> None:
    options = {"fabric": "veth", "nodes": 4, "origins": 1} | wrong
    with pytest.raises(InputError, match="^" + field.replace(".", r"\.")):
        Spec(**options)  # type: ignore[arg-type]


def test_names_follow_from_the_state_folder_alone() -> None:
    one, same, other = (
        ClusterLayout.from_state(Path(p)) for p in ("/tmp/a", "/tmp/../tmp/a", "/tmp/b")
    )
    assert one.tag == same.tag != other.tag
    # IFNAMSIZ is 16 with the closing zero: the tag is also the name of a link.
    assert len(one.tag) <= 15
    assert one.netns("node1") == f"{one.tag}-node1"


@pytest.mark.parametrize("folder", ["/tmp/" + "x" * 80, "/tmp/a b", "/tmp/a=b"])
def test_state_folders_that_cannot_serve(folder: str) -> None:
    with pytest.raises(InputError, match=r"^--state /tmp"):
        ClusterLayout.from_state(Path(folder))


def test_default_state_is_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert default_state() == tmp_path / "nimc-minicluster"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "absent"))
    assert default_state().name.startswith("nimc-minicluster-")
