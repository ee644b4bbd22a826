"""Describes checks, with the variables that a campaign may set.

A *check* is a ReFrame test, which runs one workload. ReFrame itself lists the variables of checks
in a separate process (`main`), so inherited variables are included. The descriptions of this
project's checks are cached until ReFrame, a check or a default changes, so that a plan need not
start ReFrame. The descriptions of third-party checks are not cached, since the modules that they
import may change too.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from records import units
from records.acceptance import DISTURBANCE_LIMITS, AcceptanceLimits
from records.arms import level_text
from records.chain import file_digest
from records.checkout import python_main, python_path
from records.errors import InputError, MachineError, NimcError
from records.files import reason_to_distrust, replace_text, require_owned
from records.machine.site import Machine
from records.programs import ask
from records.sample import Level
from reframe_tests.factors import FACTORS, changes_within_jobs, check_level
from reframe_tests.planning import planning_variables

#: Variables of checks that the key `set` of a campaign may not name. A campaign sets them by other
#: keys, or `nimc run` sets them for each block.
RESERVED_VARIABLES = frozenset(
    (
        *DISTURBANCE_LIMITS,
        "arms",
        "block",
        "block_file",
        "case",
        "exclude",
        "factors",
        "injector",
        "message",
        "min_share",
        "nimc_dir",
        "nodelist",
        "only",
        "pairs",
        "queue_pairs",
        "rate",
        "rest_s",
        "retries",
        "run_timeout_s",
        "seed",
        "workload",
    )
)
#: Variables that a check sets itself, so a campaign may not set them.
_FIXED_BY_CHECK = frozenset({"mpi", "notes", "package", "program", "provenance", "stack"})
#: How long ReFrame may take to list the checks, seconds.
_READ_TIMEOUT_S = 120.0


#: Name of a type that is not numeric -> its allowed values in words.
_ALLOWED_VALUES = {
    "bool": "true, false",
    "str": "text",
    "size": "a size with its unit, such as 64MiB",
}


@dataclass(frozen=True)
class VariableType:
    """The type of a variable, and the values that it accepts.

    Which numbers are accepted depends on the default. If the default is above 0, an `int` must be
    at least 1, and a `float` must be above 0. Otherwise an `int` or `float` must be at least the
    default. If a number has no default, 0 is used as the default.
    """

    #: `int`, `float`, `bool`, `str`, `size` (a text with a unit, or an empty text), or another type
    #: of ReFrame. Another type accepts any value.
    name: str
    #: Default value of the variable; None if it has none or it is not a number.
    default: float | None = None

    @property
    def allowed(self) -> str:
        """Return the accepted values in words."""
        default = self.default or 0
        if self.name == "int":
            return f"whole numbers from {min(1, default):g}"
        if self.name == "float":
            return "numbers above 0" if default > 0 else f"numbers from {default:g}"
        return _ALLOWED_VALUES.get(self.name, "anything")

    def accepts(self, value: Any) -> bool:
        """Return whether a campaign may set the variable to this value."""
        is_bool = isinstance(value, bool)
        default = self.default or 0
        if self.name == "bool":
            return is_bool
        if self.name == "str":
            return not is_bool
        if self.name == "size":
            return value == "" or _is_size(value)
        if self.name not in ("int", "float"):
            return True
        number_types = int if self.name == "int" else (int, float)
        if is_bool or not isinstance(value, number_types) or not math.isfinite(value):
            return False
        if self.name == "int":
            return value >= min(1, default)
        return value > 0 if default > 0 else value >= default


def _is_size(value: Any) -> bool:
    with suppress(InputError):
        return isinstance(value, str) and units.size_b(value, "") > 0
    return False


@dataclass(frozen=True, kw_only=True)
class CheckDescription:
    """Facts about a check that are needed to plan a campaign with it."""

    #: Names of its variables, with inherited ones. For a check of this project, ReFrame's own
    #: variables are not listed.
    variables: frozenset[str]
    #: Variables of the check that may change from one run of a block (the pairs of one allocation)
    #: to the next run.
    within_block: frozenset[str] = frozenset()
    #: Whether its figures of merit with different numbers of cores may be compared.
    comparable_across_cores: bool = False
    #: Variable -> its type.
    types: Mapping[str, VariableType] = field(default_factory=dict)
    #: Conditions on a ReFrame environment, such as `+FEATURE`. The check can run in an environment
    #: that fulfils at least one of them. A third-party check lists environments instead, each as
    #: `PARTITION+ENVIRONMENT`.
    environs: tuple[str, ...] = ()
    #: Program that must be found; None if the check compiles its own program or uses no program.
    program: str | None = None
    #: Whether an environment with the feature `spack` can provide the program: Spack builds the
    #: program itself, or a compiler for its sources.
    from_spack: bool = False
    #: Whether the check compiles its sources.
    compiles: bool = False
    #: Whether the partition's MPI launcher starts the program.
    mpi: bool = False
    #: Name of the variable that makes runs longer; empty if there is none.
    lengthened_by: str = ""
    #: Numbers of ranks (on all nodes together) with which it can run; empty: any number.
    rank_counts: tuple[int, ...] = ()
    #: Memory of a grid point, bytes, if the program counts points in 32 bits; otherwise 0.
    point_b: int = 0
    #: Number of rows (reports of the rate in an interval) that writers must print before each run.
    ready_rows: int = 1
    #: Variables that decide what writers do, or can be factors (`planning.planning_variables`) ->
    #: value in this check.
    levels: Mapping[str, Level] = field(default_factory=dict)
    #: File of a third-party check; empty for a check of this project.
    file: str = ""
    #: SHA-256 of the file of a third-party check; empty for a check of this project.
    sha256: str = ""

    @cached_property
    def settable(self) -> frozenset[str]:
        """Return the variables that a campaign's key `set` may name."""
        return self.variables - RESERVED_VARIABLES - _FIXED_BY_CHECK

    @cached_property
    def factors(self) -> frozenset[str]:
        """Return the factors that a campaign's key `factors` may name."""
        return self.settable | (self.variables & FACTORS.keys())

    def check_level(self, name: str, level: Level) -> None:
        """Raise InputError if a variable or factor `name` may not have this value or level."""
        check_level(name, level)
        variable_type = self.types.get(name)
        if name == "warmups":  # 0 is allowed, although the default is 1
            variable_type = VariableType("int", 0)
        if variable_type and name not in FACTORS and not variable_type.accepts(level):
            raise InputError(f"{name}: {level!r} found; allowed: {variable_type.allowed}")

    def typed(self, name: str, value: Level) -> Level:
        """Return the value that a campaign gives to the variable `name`, in the variable's type."""
        type_name = self.types[name].name if name in self.types else ""
        if type_name in ("str", "size"):
            return level_text(value)
        return float(value) if type_name == "float" and isinstance(value, int) else value

    def changes_within(self, factor: str) -> bool:
        """Return whether a factor's level changes within a block.

        If it does not, each level makes a case of its own.
        """
        return changes_within_jobs(factor) or factor in self.within_block


#: Description of a check that does not exist. It has no variables.
UNKNOWN_CHECK = CheckDescription(variables=frozenset())
_CHECKS = TypeAdapter(dict[str, CheckDescription])


def checks_in(folder: Path) -> Mapping[str, CheckDescription]:
    """Return name -> description of the checks in a folder.

    A check is the class NAME in the file `NAME.py`. Raises MachineError if a check cannot be read.
    """
    # The descriptions depend on ReFrame's version, on the fields of a description, on the default
    # limits and on all files.
    fields = [*CheckDescription.__dataclass_fields__]
    limits = AcceptanceLimits()
    digest = hashlib.sha256(f"{version('reframe-hpc')} {fields} {limits}".encode())
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return cached_checks(folder, digest.hexdigest())


@lru_cache(maxsize=4)
def cached_checks(folder: Path, digest: str) -> Mapping[str, CheckDescription]:
    """Return name -> description of the checks in a folder; `digest` identifies its content.

    The descriptions are kept in memory. If they are not there, they come from the user's cache; if
    the cache lacks them, from ReFrame. Raises MachineError if a check cannot be read.
    """
    cache = _cache_file()
    with suppress(OSError, ValueError, KeyError, TypeError):  # the cache is missing or invalid
        if cache and not reason_to_distrust(cache):
            record = json.loads(cache.read_bytes())
            if record["digest"] == digest:
                return _CHECKS.validate_python(record["checks"])
    descriptions = _ask_reframe(folder)
    checks = _CHECKS.validate_python(descriptions)
    with suppress(OSError, InputError):
        if cache:
            replace_text(cache, json.dumps({"digest": digest, "checks": descriptions}), 0o600)
    return checks


def _cache_file() -> Path | None:
    """Return the path of the user's cache file.

    Returns None if its folder cannot be made, is a link, or if another user could write to it.
    """
    with suppress(OSError, RuntimeError):  # RuntimeError: the user has no home folder
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nimc"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return None if reason_to_distrust(folder) else folder / "checks.json"
    return None


def third_party_check(path: Path, name: str, config: Path, system: str) -> CheckDescription:
    """Return the description of a third-party check.

    The check is the class `name`, a subclass of `NimcMixin`, in the file `path`. `config` is
    ReFrame's settings file and `system` the name of a system in it. Raises InputError or
    MachineError if the check cannot be measured. The message gives the reason, but not the name of
    the check.
    """
    path = Path(os.path.realpath(path.parent), path.name)
    # The file runs with the rights of this user, and imports other files of its folder.
    for location in (path.parent, path):
        require_owned(location, "file", or_root=True)
    if not path.is_file():
        raise InputError(f"{path}: no such file; allowed: a file")
    return _CHECKS.validate_python(_ask_reframe(path, name, str(config), system))[name]


def _ask_reframe(path: Path, *arguments: str) -> dict[str, Any]:
    answer = ask(
        python_main("nimc.readiness.checks", str(path), *arguments),
        {**os.environ, "PYTHONPATH": python_path()},
        timeout_s=_READ_TIMEOUT_S,
    )
    with suppress(ValueError, IndexError):
        descriptions: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
        if "fault" in descriptions:
            raise MachineError(descriptions["fault"])
        return descriptions
    raise MachineError(f"{path}: the checks cannot be read: {answer.last_line}")


def require_known_programs(machine: Machine, checks: Mapping[str, CheckDescription]) -> None:
    """Raise InputError if a site file names a program that no check runs."""
    known_programs = sorted({check.program for check in checks.values() if check.program})
    for name in machine.programs:
        if name not in known_programs:
            raise InputError(
                f"site/{machine.name}.yaml: programs.{name}: no check runs a program of this name;"
                f" allowed: {', '.join(known_programs)}"
            )


# What follows runs in the separate process. It imports the checks of a folder, or a third-party
# check, and describes them.


def main() -> None:
    """Print one line of JSON: check -> fields of `CheckDescription`.

    If a check cannot be read, the line has the key `fault` with the reason. The arguments are the
    folder of checks. For a third-party check they are its file, its class, ReFrame's settings file
    and the name of the system.
    """
    path, *arguments = sys.argv[1:]
    if arguments:
        descriptions = _describe_third_party(path, *arguments)
    else:
        descriptions = _describe_folder(Path(path))
    print("\n" + json.dumps(descriptions))


def _describe_folder(folder: Path) -> dict[str, Any]:
    sys.path.insert(0, str(folder.parent))
    import reframe as rfm

    from reframe_tests.binaries import CompiledMixin
    from reframe_tests.mixin import NimcMixin

    reframe_variables = set(rfm.RegressionTest.var_space)
    descriptions: dict[str, Any] = {}
    for path in sorted(folder.glob("*.py")):
        name = path.stem
        if not re.search(rf"^class {name}\(", path.read_text(encoding="utf-8"), re.MULTILINE):
            continue
        try:
            check = getattr(importlib.import_module(f"{folder.name}.{name}"), name)
        except Exception as error:
            return {"fault": f"{path}: the check cannot be read: {_error_line(error)}"}
        if issubclass(check, NimcMixin):
            from_spack = issubclass(check, CompiledMixin) or _default(check, "stack") is not None
            descriptions[name] = {
                **_common_fields(check, set(check.var_space) - reframe_variables),
                "environs": list(_default(check, "valid_prog_environs") or check.default_environs),
                "program": _default(check, "program"),
                "from_spack": from_spack,
            }
    return descriptions


def _describe_third_party(file: str, name: str, config: str, system: str) -> dict[str, Any]:
    sys.dont_write_bytecode = True  # write no files to the folder of the check
    from reframe.core.runtime import temp_runtime, valid_sysenv_comb
    from reframe.utility import import_module_from_file

    from reframe_tests.mixin import NimcMixin
    from reframe_tests.third_party import require_readable

    try:
        with temp_runtime(config, system):
            module = import_module_from_file(file, load_parents=True)
            checks = {
                class_name: value
                for class_name, value in vars(module).items()
                if isinstance(value, type) and issubclass(value, NimcMixin) and value != NimcMixin
            }
            check: Any = checks.get(name)
            if check is None:
                allowed = ", ".join(checks) or "none in this file"
                raise InputError(f"no such class with NimcMixin as a base; allowed: {allowed}")
            if check.num_variants != 1:
                raise InputError(
                    f"{check.num_variants} variants; allowed: one value of each parameter"
                )
            # An instance is made, since hooks may set valid_systems and valid_prog_environs.
            instance = check(variant_num=0)
            require_readable(instance, NimcMixin)
            environs = valid_sysenv_comb(instance.valid_systems, instance.valid_prog_environs)
    except Exception as error:
        return {"fault": _error_line(error)}
    combinations = [
        (partition, environ) for partition in environs for environ in environs[partition]
    ]
    file_facts = {
        "environs": [f"{partition.name}+{environ.name}" for partition, environ in combinations],
        "file": file,
        "sha256": file_digest(Path(file)),
    }
    return {name: {**_common_fields(check, set(check.var_space)), **file_facts}}


def _common_fields(check: Any, variables: set[str]) -> dict[str, Any]:
    """Return the fields of `CheckDescription` that this project's and third-party checks share."""
    import reframe as rfm

    within_block = getattr(check, "within_block", ())
    planned_names = sorted(planning_variables(variables, within_block))
    levels = {name: _default(check, name) for name in planned_names}
    return {
        "variables": sorted(variables),
        "types": {name: _type_fields(check, name) for name in sorted(variables)},
        "within_block": list(within_block),
        "comparable_across_cores": bool(getattr(check, "comparable_across_cores", False)),
        "levels": {name: value for name, value in levels.items() if value is not None},
        "lengthened_by": check.lengthened_by,
        "rank_counts": list(getattr(check, "rank_counts", ())),
        "point_b": getattr(check, "point_b", 0),
        "ready_rows": check.ready_rows,
        "compiles": not issubclass(check, rfm.RunOnlyRegressionTest),
        "mpi": bool(_default(check, "mpi")),
    }


def _type_fields(check: Any, name: str) -> dict[str, Any]:
    """Return the fields of the `VariableType` of a check's variable."""
    valid_types: Any = getattr(check.var_space[name].field, "valid_types", ())
    default = _default(check, name)
    is_number = isinstance(default, int | float) and not isinstance(default, bool)
    type_name = valid_types[0].__name__ if len(valid_types) == 1 else ""
    return {
        "name": "size" if name in getattr(check, "size_variables", ()) else type_name,
        "default": default if is_number else None,
    }


def _default(check: Any, name: str) -> Any:
    """Return the value that a check's class gives to a variable.

    Returns None if the class has no such variable, or gives no value to it.
    """
    if name not in check.var_space or not check.var_space[name].is_defined():
        return None
    return check.var_space[name].default_value


def _error_line(error: Exception) -> str:
    """Return the first line of an error.

    The type of the error precedes it, unless the error is one of ReFrame's or of this project.
    """
    from reframe.core.exceptions import ReframeError

    prefix = "" if isinstance(error, ReframeError | NimcError) else f"{type(error).__name__}: "
    return f"{prefix}{error}".partition("\n")[0]
