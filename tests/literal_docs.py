"""Follows a page of docs/ literally, in a copy of the checkout.

A page says what to write in two kinds of lines, the second followed by one fenced block:

    Copy [`docs/examples/NAME`](examples/NAME) to `PATH`.
    In `PATH`, after the line `ANCHOR` (1 line):

ANCHOR is a whole line without its indentation, and occurs once. The number of lines is that of the
block, and is checked. Fragments are fenced as `text`: the formatter would unindent `python`.

Commands to be run one after the other are fenced as `sh`.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from records.checkout import ROOT
from tests.undisturbed import VARIABLES

_BEGINS = re.compile(r"^(?:Copy \[|In )`", re.MULTILINE)
_STEP = re.compile(
    r"^Copy \[`(?P<example>[^`]+)`\]\(\S+\) to `(?P<new>[^`]+)`\.$"
    r"|^In `(?P<old>[^`]+)`, after the line `(?P<anchor>[^`]+)`"
    r" \((?P<count>\d+) lines?\):\n\n```\w*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: What a check, a campaign or an injector needs of a checkout.
FOLDERS = (
    "analysis",
    "campaigns",
    "configs",
    "testbed",
    "conductor",
    "nimc",
    "records",
    "reframe_tests",
    "site",
    "spack_envs",
)


@dataclass(frozen=True)
class Step:
    """One block of a page: a new file, or lines to add after the anchor."""

    path: str
    anchor: str | None
    text: str


def section(page: str, title: str) -> str:
    """The text below a heading of the second level of a page of docs/."""
    text = (ROOT / "docs" / page).read_text()
    (body,) = re.findall(rf"^## {title}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return str(body)


def steps(text: str) -> list[Step]:
    """The steps of a text, in order. Raises AssertionError for one that cannot be followed."""
    parsed = [_step(match) for match in _STEP.finditer(text)]
    assert parsed, "no steps"
    assert len(parsed) == len(_BEGINS.findall(text)), "a step without its block"
    return parsed


def _step(match: re.Match[str]) -> Step:
    if match["new"]:
        return Step(match["new"], None, (ROOT / match["example"]).read_text())
    assert int(match["count"]) == len(match["text"].splitlines()), f"{match['old']}: lines"
    return Step(match["old"], match["anchor"], match["text"])


def commands(text: str) -> list[str]:
    """The lines of all blocks fenced as `sh`. Raises AssertionError if there is none."""
    lines = [line for block in _COMMANDS.findall(text) for line in block.splitlines()]
    assert lines, "no commands"
    return lines


def run_as_printed(
    text: str, check: str, checkout: Path, folder: Path
) -> list[subprocess.CompletedProcess[str]]:
    """Start the ReFrame commands that a text prints for a check, in a copy of the checkout.

    Only other work on this host is allowed for, and files go to `folder`.
    """
    printed = re.findall(rf"^    (reframe .*reframe_tests/{check}\.py.*)$", text, re.MULTILINE)
    assert printed, f"no command for {check}"
    limits = [f"-S{name}={value}" for name, value in VARIABLES.items()]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    return [
        subprocess.run(
            [
                Path(sys.executable).parent / line[0],
                *line[1:],
                "--nocolor",
                "--prefix",
                folder,
                *limits,
            ],
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
            timeout=1200,
        )
        for line in map(shlex.split, printed)
    ]


def copy_of_checkout(folder: Path) -> Path:
    """A copy of what can be run, in `folder`."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def follow(text: str, checkout: Path) -> dict[str, int]:
    """Do what a text says in a copy of the checkout: path -> lines added."""
    added: dict[str, int] = {}
    for step in steps(text):
        path = checkout / step.path
        if step.anchor is None:
            assert not path.exists(), f"{step.path} exists already"
            path.parent.mkdir(exist_ok=True)
            path.write_text(step.text)
        else:
            lines = path.read_text().splitlines(keepends=True)
            (index,) = (n for n, line in enumerate(lines) if line.strip() == step.anchor)
            path.write_text("".join([*lines[: index + 1], step.text, *lines[index + 1 :]]))
        added[step.path] = added.get(step.path, 0) + len(step.text.splitlines())
    return added
