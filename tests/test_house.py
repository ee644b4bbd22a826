"""The structure that CONTRIBUTING.md promises: which folder may import which."""

import ast
import collections
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Rooms from the top down: each imports only from itself and from those after it.
ROOMS = [
    "configs",
    "studies",
    "nimc.cli",
    "nimc.nights",
    "nimc.crate",
    "nimc.cluster",
    "nimc.run",
    "nimc.campaign",
    "reframe_tests",
    "reframe_tests.spack",
    "conductor",
    "testbed",
    "analysis",
    "records.traffic",
    "records.machine",
    "records",
    "records",
]
#: Folders that hold packages of their own; none of these may import another that imports it.
HOUSES = ["analysis", "conductor", "nimc.cluster"]
#: A reader finds a subject in one place, and a folder at a glance.
MOST_LINES = 650
MOST_MODULES = 15


def folder(room: str) -> Path:
    return ROOT / room.replace(".", "/")


def sources(room: str) -> list[Path]:
    return sorted(folder(room).rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imported(path: Path) -> set[str]:
    return names_of(ast.walk(tree(path)))


def names_of(nodes: Iterable[ast.AST]) -> set[str]:
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {f"{node.module}.{each.name}" for each in node.names}
    return names


def lies_in(name: str, rooms: Iterable[str]) -> bool:
    return any(f"{name}.".startswith(f"{room}.") for room in rooms)


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_imports_one_above_it(room: str) -> None:
    above = ROOMS[: ROOMS.index(room)]
    up = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources(room)
        for name in imported(path)
        if lies_in(name, above)
    }
    assert sources(room)
    assert not up


@pytest.mark.parametrize("room", ROOMS[1:])
def test_no_room_names_one_above_it_in_a_subprocess(room: str) -> None:
    above = [each for each in ROOMS[: ROOMS.index(room)] if each != "nimc.cli"]  # the program
    hidden = {
        f"{path.relative_to(ROOT)}: {node.value[:60]}"
        for path in sources(room)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if "import" in node.value and any(f"from {name}" in node.value for name in above)
    }
    assert not hidden


@pytest.mark.parametrize("house", HOUSES)
def test_packages_of_a_house_have_no_circle(house: str) -> None:
    arrows = collections.defaultdict(set)
    for path in sources(house):
        inside = path.relative_to(folder(house)).parts
        for name in imported(path):
            if len(inside) > 1 and name.startswith(f"{house}."):
                other = name.removeprefix(f"{house}.").split(".")[0]
                if (folder(house) / other).is_dir() and other != inside[0]:
                    arrows[inside[0]].add(other)
    assert not {(a, b) for a in arrows for b in arrows[a] if a in arrows.get(b, ())}


@pytest.mark.parametrize("room", ROOMS)
def test_modules_and_folders_stay_small_enough_to_read(room: str) -> None:
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in sources(room)
    }
    assert not {path: count for path, count in lines.items() if count > MOST_LINES}
    modules = collections.Counter(
        str(path.parent.relative_to(ROOT)) for path in sources(room) if path.name != "__init__.py"
    )
    modules.pop("reframe_tests", None)  # one file a workload
    assert not {name: count for name, count in modules.items() if count > MOST_MODULES}


def test_what_starts_slowly_is_loaded_where_it_is_called() -> None:
    slow = {
        f"{path.relative_to(ROOT)} imports {name}"
        for room in ROOMS
        for path in sources(room)
        for name in names_of(tree(path).body)
        if name.startswith("scipy.stats")
    }
    assert not slow, "scipy.stats takes a second to import; scipy.special has most of its functions"
