"""Functions that start ReFrame as a user does, and that read the files of a run or a dry run."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from records.checkout import ROOT
from reframe_tests.tools.base import FOLDER_PLACEHOLDER, Tool

QUIET = Path(__file__).with_name("quiet.py")


def ran(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program until it ends, and return its status and its output."""
    arguments = {"capture_output": True, "text": True, "timeout": 300, **options}
    return subprocess.run(list(map(str, words)), **arguments)


def reframe(
    folder: Path,
    config: str | Path,
    check: str | Path,
    *words: object,
    name: str = "",
    settings: Mapping[str, object] | None = None,
    root: Path = ROOT,
    timeout_s: float = 300,
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """Call ReFrame for the check `name`; ReFrame puts its stage and output folders into `folder`.

    `config` is the name of a machine of the checkout `root`, or the path of a file of settings.
    `check` is the name of a workload of the checkout `root`, or the path of a file of checks.
    `settings` are variables of the check. `variables` are variables of the environment.
    """
    file = check if isinstance(check, Path) else root / "reframe_tests" / f"{check}.py"
    name = name or file.stem
    settings_file = config if isinstance(config, Path) else f"{root}/configs/{config}.py"
    command = [Path(sys.executable).parent / "reframe", "-C", settings_file, "-C", QUIET]
    command += ["--prefix", folder, "--nocolor", "-c", file, "-n", f"^{name}$", *words]
    for key, value in (settings or {}).items():
        command += ["-S", f"{name}.{key}={value}"]
    environment = {**os.environ, "PYTHONPATH": str(root), **variables}
    return ran(*command, cwd=folder, env=environment, timeout=timeout_s)


def script(path: Path, text: str) -> Path:
    """Make a folder and write an executable script into it.

    The shell runs the script, unless the first line names another interpreter.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def run_tool(
    tool: Tool, folder: Path, *application: str, launcher: Sequence[str] = (), **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run an application under a measuring tool; the tool writes its files to `folder`."""
    command = [
        part.replace(FOLDER_PLACEHOLDER, str(folder)) for part in tool.wrap(launcher, application)
    ]
    return ran(*command, **options)


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    """Assert that a program has succeeded, and return its standard output."""
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def plan_of(folder: Path, name: str) -> dict[str, Any]:
    """Return the plan that a dry run has written for the block of a check."""
    (path,) = folder.glob(f"stage/*/*/*/{name}/plan.json")
    plan: dict[str, Any] = json.loads(path.read_text())
    return plan


def samples_of(run: Path, case: str) -> list[dict[str, Any]]:
    lines = (run / "samples" / f"{case}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def provenance_of(run: Path) -> dict[str, Any]:
    """Return the provenance record of a run; the run must have exactly one."""
    (path,) = (run / "provenance").glob("*.json")
    record: dict[str, Any] = json.loads(path.read_text())
    return record
