"""Runs as a separate process: imports the checks of a folder and describes them as JSON."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import reframe as rfm


def main(folder: Path) -> None:
    """Print one line of JSON: check -> the fields of `checks.CheckVariables`, or `fault`."""
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
                "variables": sorted(_variables(check) - own),
                "within_block": list(getattr(check, "within_block", ())),
                "comparable_across_cores": bool(getattr(check, "comparable_across_cores", False)),
            }
    print(json.dumps(found))


def _variables(check: Any) -> set[str]:
    """Names of a class's variables, inherited ones included."""
    return set(check._rfm_var_space.vars)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
