"""The structure that CONTRIBUTING.md promises: who may import whom, and names that are unique."""

from __future__ import annotations

import ast
import collections
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: From the top down: a folder imports from those after it.
FLOORS = ["configs", "campaigns", "reframe_tests", "spack_envs", "injection", "analysis"]
#: Rooms of a floor; none may import another that imports it.
ROOMED = ["campaigns", "injection", "analysis"]
#: Recipes and the index are Spack's own language, run by Spack.
SPACKS = ("spack_envs/repo", "spack_envs/index.py")


def sources(floor: str) -> list[Path]:
    found = sorted((ROOT / floor).rglob("*.py"))
    return [path for path in found if not str(path.relative_to(ROOT)).startswith(SPACKS)]


def imported(path: Path) -> set[str]:
    return names_of(ast.walk(ast.parse(path.read_text())))


def names_of(nodes: Iterable[ast.AST]) -> set[str]:
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {f"{node.module}.{each.name}" for each in node.names}
    return names


@pytest.mark.parametrize("floor", FLOORS)
def test_no_floor_imports_one_above_it(floor: str) -> None:
    above = set(FLOORS[: FLOORS.index(floor)])
    up = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources(floor)
        for name in imported(path)
        if name.split(".")[0] in above
    }
    assert not up


@pytest.mark.parametrize("floor", FLOORS[1:])
def test_no_floor_names_one_above_it_in_a_subprocess(floor: str) -> None:
    above = [f"{name}." for name in FLOORS[: FLOORS.index(floor)]]
    hidden = {
        f"{path.relative_to(ROOT)}: {node.value[:60]}"
        for path in sources(floor)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if "import" in node.value and any(f"from {name}" in node.value for name in above)
    }
    assert not hidden


@pytest.mark.parametrize("floor", ROOMED)
def test_rooms_of_a_floor_have_no_circle(floor: str) -> None:
    arrows = collections.defaultdict(set)
    for path in sources(floor):
        room = path.relative_to(ROOT / floor).parts
        for name in imported(path):
            parts = name.split(".")
            if len(room) > 1 and parts[0] == floor and (ROOT / floor / parts[1]).is_dir():
                arrows[room[0]].add(parts[1])
    circles = {
        tuple(sorted((a, b)))
        for a in arrows
        for b in arrows[a]
        if a != b and a in arrows.get(b, ())
    }
    assert not circles


def test_no_two_classes_have_one_name() -> None:
    where = collections.defaultdict(list)
    for floor in FLOORS[1:]:
        for path in sources(floor):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    where[node.name].append(str(path.relative_to(ROOT)))
    assert not {name: paths for name, paths in where.items() if len(paths) > 1}


def test_what_starts_slowly_is_loaded_where_it_is_called() -> None:
    slow = {
        f"{path.relative_to(ROOT)} imports {name}"
        for floor in FLOORS
        for path in sources(floor)
        for name in names_of(ast.parse(path.read_text()).body)
        if name.startswith("scipy.stats")
    }
    assert not slow, "scipy.stats takes a second to import; scipy.special has most of its functions"


#: Files of the kernel, and scratch files in a folder that was just made for them.
WRITTEN_ELSEWHERE = {
    "minicluster/containers.py",
    "nimc/cluster/probes.py",
    "reframe_tests/tools/beside_start.py",
    "reframe_tests/tools/openspeedshop.py",
}


def test_files_are_written_in_one_way() -> None:
    """`nimc.base.files` follows no link; `write_parquet` is for memory only."""
    others = {
        str(path.relative_to(ROOT))
        for floor in FLOORS
        for path in sources(floor)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr in ("write_text", "write_bytes", "write_csv", "write_parquet", "mkstemp")
    }
    assert others == WRITTEN_ELSEWHERE | {"analysis/samples/table_file.py"}
