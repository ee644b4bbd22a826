"""Tests of the rules of CONTRIBUTING.md for the source code.

They check which folder may import which, which names may be used, and how programs are started.
"""

import ast
import collections
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Folder -> the folders below it, which are the ones that it may import. `nimc` may import all of
#: them except `configs`.
FOLDERS = {
    "records": set(),
    "conductor": {"records"},
    "analysis": {"records"},
    "testbed": {"records"},
    "reframe_tests": {"analysis", "conductor", "records"},
    "nimc": {"analysis", "conductor", "records", "reframe_tests", "testbed"},
    "configs": {"nimc", "records", "reframe_tests", "testbed"},
}
#: Rooms (packages) of `nimc` from the top down. A room imports only from itself and from the rooms
#: after it in this list.
ROOMS = [
    "nimc.cli",
    "nimc.nights",
    "nimc.crate",
    "nimc.cluster",
    "nimc.run",
    "nimc.campaign",
    "nimc.readiness",
]
#: Folders with several packages. Two packages of one of these folders may not import each other.
HOUSES = ["analysis", "conductor", "nimc.cluster"]

#: Names that may not be used, since they say nothing of the subject. Use a noun of the subject.
EMPTY_NAMES = {
    "asked",
    "at",
    "both",
    "each",
    "found",
    "given",
    "got",
    "how",
    "lacking",
    "look",
    "made",
    "of",
    "place",
    "said",
    "there",
    "this",
    "told",
    "what",
    "when",
    "where",
    "who",
}
#: Folders whose code is checked for these names.
NAMED_ROOMS = [
    "analysis",
    "bench",
    "conductor",
    "nimc",
    "records",
    "reframe_tests",
    "scripts",
    "testbed",
    "tests",
]


def folder(room: str) -> Path:
    return ROOT / room.replace(".", "/")


def sources(room: str) -> list[Path]:
    return sorted(folder(room).rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """All nodes of a module, which is walked once for all tests."""
    return [*ast.walk(tree(path))]


@cache
def imported(path: Path) -> set[str]:
    return names_of(nodes_of(path))


def names_of(nodes: Iterable[ast.AST]) -> set[str]:
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def lies_in(name: str, rooms: Iterable[str]) -> bool:
    return any(f"{name}.".startswith(f"{room}.") for room in rooms)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_imports_only_from_those_below_it(name: str) -> None:
    others = set(FOLDERS) - FOLDERS[name] - {name}
    wrong = {
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources(name)
        for module in imported(path)
        if lies_in(module, others)
    }
    assert sources(name)
    assert not wrong


def test_all_folders_with_code_are_in_the_table() -> None:
    folders = {path.parent.name for path in ROOT.glob("*/*.py")}
    assert folders - {"bench", "tests", "scripts"} == set(FOLDERS)


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


@pytest.mark.parametrize(
    "room", ["conductor", "conductor.injectors", "conductor.agent", "conductor.judge"]
)
def test_only_the_block_imports_other_rooms_of_the_conductor(room: str) -> None:
    """Agents and judge do not import each other. What both need is in modules of `conductor`."""
    others = {"conductor.agent", "conductor.judge", "conductor.block"} - {room}
    files = sorted(folder(room).glob("*.py"))
    up = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files
        for name in imported(path)
        if lies_in(name, others)
    }
    assert files
    assert not up


def test_no_test_imports_a_test() -> None:
    """Code that several tests use is in a module that has no tests."""
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources("tests")
        for name in imported(path)
        if re.search(r"^tests\..*\btest_", name)
    }
    assert not wrong


#: Names of methods and attributes of named tuples. They begin with `_`, but are public.
NAMED_TUPLE_NAMES = {"_asdict", "_fields", "_make", "_replace"}


def is_private(name: str) -> bool:
    return bool(re.fullmatch(r"_[^_]\w*", name)) and name not in NAMED_TUPLE_NAMES


def test_tests_use_no_private_name_of_the_program() -> None:
    """Tests do not import, read or replace a private name of the program."""
    program = [path for room in (*FOLDERS, "bench", "scripts") for path in sources(room)]
    nodes = [node for path in program for node in nodes_of(path)]
    attributes = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    classes = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    bound_names = {*filter(None, map(bound, nodes)), *(path.stem for path in program)}
    private = {*filter(is_private, bound_names | attributes | classes)}
    used = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources("tests")
        for node in nodes_of(path)
        for name in names_from_elsewhere(node)
        if name in private
    }
    assert private
    assert not used


def names_from_elsewhere(node: ast.AST) -> list[str]:
    """Return names that a node takes from other modules or objects.

    These are names that it imports, attributes that it reads of an object other than `self` and
    `cls`, and names that it replaces with `setattr` or `patch`.
    """
    if isinstance(node, ast.ImportFrom):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls"):
        return [node.attr]
    if isinstance(node, ast.Call) and re.search(r"attr$|patch$", ast.unparse(node.func)):
        texts = [word.value for word in node.args if isinstance(word, ast.Constant)]
        return [text.rpartition(".")[2] for text in texts if isinstance(text, str)]
    return []


@pytest.mark.parametrize("name", sorted(set(FOLDERS) - {"nimc"}))
def test_no_folder_names_one_above_it_in_a_subprocess(name: str) -> None:
    above = set(FOLDERS) - FOLDERS[name] - {name}
    hidden = {
        f"{path.relative_to(ROOT)}: {node.value[:60]}"
        for path in sources(name)
        for node in nodes_of(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if "import" in node.value and any(f"from {other}" in node.value for other in above)
    }
    assert not hidden


@pytest.mark.parametrize("house", HOUSES)
def test_packages_of_a_house_do_not_import_each_other(house: str) -> None:
    arrows = collections.defaultdict(set)
    for path in sources(house):
        inside = path.relative_to(folder(house)).parts
        for name in imported(path):
            if len(inside) > 1 and name.startswith(f"{house}."):
                other = name.removeprefix(f"{house}.").split(".")[0]
                if (folder(house) / other).is_dir() and other != inside[0]:
                    arrows[inside[0]].add(other)
    assert not {(a, b) for a in arrows for b in arrows[a] if a in arrows.get(b, ())}


def test_what_starts_slowly_is_loaded_where_it_is_called() -> None:
    slow = {
        f"{path.relative_to(ROOT)} imports {name}"
        for room in FOLDERS
        for path in sources(room)
        for name in names_of(tree(path).body)
        if name.startswith("scipy.stats")
    }
    assert not slow, "scipy.stats takes a second to import; scipy.special has most of its functions"


#: Python code that may be started in any folder: it has no `import`, so no file of the current
#: folder can run.
IMPORTLESS_CODE = "while True: pass"
STARTING_CALL = re.compile(
    r"subprocess\.(run|call|check_\w+|Popen)|.*create_subprocess_\w+|os\.(popen|system)"
)


def test_programs_start_in_a_named_folder_and_python_by_one_module() -> None:
    """Every call that starts a program names its folder. Only `records.checkout` starts Python."""
    without_folder, otherwise = [], []
    for path in (path for name in FOLDERS for path in sources(name)):
        name = str(path.relative_to(ROOT))
        for node in nodes_of(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if STARTING_CALL.fullmatch(ast.unparse(node.func)):
                    named = {word.arg for word in node.keywords}
                    without_folder += [name] if "cwd" not in named else []
            elif isinstance(node, ast.List | ast.Tuple):
                text = ast.unparse(node)
                is_python = "sys.executable" in text and ("'-c'" in text or "'-m'" in text)
                otherwise += [name] if is_python and IMPORTLESS_CODE not in text else []
    assert not without_folder
    assert otherwise == ["records/checkout.py"]


def test_private_names_of_reframe_stand_in_one_module() -> None:
    private = re.compile(r"_rfm_|\b_(stdout|stderr|resolve_reference)\b")
    modules = {
        str(path.relative_to(ROOT))
        for name in FOLDERS
        for path in sources(name)
        if private.search(path.read_text())
    }
    assert modules == {"reframe_tests/internals.py"}


#: The only folder whose code names Slurm's commands, and the folder that a site edits.
SLURM_FOLDER, SITE_FOLDER = "records/slurm/", "configs/"
SLURM_COMMANDS = re.compile(
    r"\b(?:sacct|sacctmgr|salloc|sbatch|scancel|scontrol|sinfo|sprio|squeue|srun|sshare)\b"
)


def docstrings(path: Path) -> set[int]:
    """Return the `id()` of each node that is a docstring."""
    holders = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return {
        id(node.body[0].value)
        for node in nodes_of(path)
        if isinstance(node, holders) and node.body and isinstance(node.body[0], ast.Expr)
    }


def test_commands_of_slurm_are_named_in_one_folder() -> None:
    named = {
        f"{path.relative_to(ROOT)}: {node.value.strip()[:60]}"
        for name in FOLDERS
        for path in sources(name)
        for node in nodes_of(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if SLURM_COMMANDS.search(node.value) and id(node) not in docstrings(path)
    }
    assert {line for line in named if line.startswith(SLURM_FOLDER)}
    assert not {line for line in named if not line.startswith((SLURM_FOLDER, SITE_FOLDER))}


def bound(node: ast.AST) -> str | None:
    """Return the name that a node binds to a variable, parameter or function; None for others."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    if isinstance(node, ast.arg):
        return node.arg
    return node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None


def is_empty(name: str) -> bool:
    """Return whether a name is in `EMPTY_NAMES` or begins with `of_`."""
    return name.lower() in EMPTY_NAMES or name.lower().lstrip("_").startswith("of_")


@pytest.mark.parametrize("room", NAMED_ROOMS)
def test_names_are_nouns_of_the_subject(room: str) -> None:
    """Checks names of variables, parameters and functions.

    Fields of records are not checked, since their names are keys of files.
    """
    assert sources(room)
    wrong = set()
    for path in sources(room):
        nodes = nodes_of(path)
        fields = {
            field.target
            for node in nodes
            if isinstance(node, ast.ClassDef)
            for field in node.body
            if isinstance(field, ast.AnnAssign)
        }
        wrong |= {
            f"{path.relative_to(ROOT)}:{node.lineno}: {name}"
            for node in nodes
            if (name := bound(node)) and is_empty(name) and node not in fields
        }
    assert not wrong
