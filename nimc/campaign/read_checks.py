"""Runs as a separate process: imports the checks of a folder and describes them as JSON."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import reframe as rfm


def main() -> None:
    """`read_checks FOLDER`: print one line of JSON.

    Keys: check -> the fields of `checks.CheckVariables`, or `fault`.
    """
    folder = Path(sys.argv[1])
    sys.path.insert(0, str(folder.parent))
    from reframe_tests.mixin import NimcMixin

    own = _variables(rfm.RegressionTest)
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*.py")):
        name = path.stem
        if not re.search(rf"^class {name}\(", path.read_text(encoding="utf-8"), re.MULTILINE):
            continue
        try:
            check = getattr(importlib.import_module(f"{folder.name}.{name}"), name)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            print(json.dumps({"fault": f"{path}: the check cannot be read: {reason}"}))
            return
        if issubclass(check, NimcMixin):
            found[name] = {
                "variables": (names := sorted(_variables(check) - own)),
                "types": {name: _type(check, name) for name in names},
                "within_block": list(getattr(check, "within_block", ())),
                "comparable_across_cores": bool(getattr(check, "comparable_across_cores", False)),
                "environs": _environs(check),
                "program": _default(check, "program"),
                "from_spack": _default(check, "stack") is not None,
                "lengthened_by": check.lengthened_by,
                "compiles": not issubclass(check, rfm.RunOnlyRegressionTest),
            }
    print(json.dumps(found))


def _variables(check: Any) -> set[str]:
    """Names of a class's variables, inherited ones included."""
    return set(check._rfm_var_space.vars)


def _type(check: Any, name: str) -> dict[str, Any]:
    """Fields of `checks.VariableType`."""
    variable = check._rfm_var_space.vars[name]
    types: Any = getattr(variable.field, "_types", ())
    default = variable.default_value if variable.is_defined() else None
    if not isinstance(default, int | float) or isinstance(default, bool):
        default = None
    return {"name": types[0].__name__ if len(types) == 1 else "", "default": default}


def _environs(check: Any) -> list[str]:
    """What it asks of an environment, itself or through the mixin."""
    variable = check._rfm_var_space.vars["valid_prog_environs"]
    named = variable.default_value if variable.is_defined() else None
    return list(named or check.wanted_environs)


def _default(check: Any, name: str) -> str | None:
    """The class's value of a variable of checks that find a program (`reframe_tests.binaries`)."""
    variable = check._rfm_var_space.vars.get(name)
    return variable.default_value if variable is not None and variable.is_defined() else None


if __name__ == "__main__":
    main()
