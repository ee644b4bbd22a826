"""Which checks there are, and which of their variables a campaign may set.

Read from the checks' source, so that a plan of thousands of cases starts no ReFrame.
"""

from __future__ import annotations

import ast
from pathlib import Path

#: Variables that a campaign sets by keys of its own, or that name a place in the run.
GOVERNED = frozenset(
    {
        "arms",
        "block",
        "case",
        "injector",
        "message",
        "min_share",
        "nimc_dir",
        "pairs",
        "rate",
        "retries",
        "run_timeout_s",
        "seed",
        "workload",
    }
)
#: Variables that checks fill in by themselves.
_OWN = frozenset({"mpi", "notes", "provenance"})


def settable(checks: Path, workload: str) -> frozenset[str]:
    """Variables of the check class `workload` in `checks/workload.py`, the mixin's included."""
    names = _variables(checks / f"{workload}.py", workload)
    return names | (_variables(checks / "mixin.py", "NimcMixin") - GOVERNED - _OWN)


def _variables(path: Path, name: str) -> frozenset[str]:
    """Names that the class `name` in a file assigns a `variable(...)`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            for statement in node.body:
                if isinstance(statement, ast.Assign) and _is_variable(statement.value):
                    found |= {t.id for t in statement.targets if isinstance(t, ast.Name)}
    return frozenset(found)


def _is_variable(value: ast.expr) -> bool:
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id == "variable"
    )
