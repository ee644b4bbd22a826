"""Follows the steps of a page of docs/ literally, in a copy of the checkout.

A page has two kinds of steps. A line of the second kind is followed by one fenced block:

    Copy [`docs/examples/NAME`](examples/NAME) to `PATH`.
    In `PATH`, after the line `ANCHOR` (1 line):

ANCHOR is a whole line without its indentation, and occurs once in the file. The number of lines is
the length of the block; this is checked. Blocks of code are fenced as `text`, since the formatter
would remove the indentation of a block that is fenced as `python`.

Commands that a reader runs one after the other are fenced as `sh`.
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
#: Folders of the checkout that a check, a campaign or an injector needs.
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
    """One step of a page: a new file, or lines that are added after the anchor.

    A new file has no anchor.
    """

    path: str
    anchor: str | None
    text: str


def section(page: str, title: str) -> str:
    """Return the text below a heading of the second level of a page of docs/."""
    text = (ROOT / "docs" / page).read_text()
    (body,) = re.findall(rf"^## {title}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return str(body)


def steps(text: str) -> list[Step]:
    """Return the steps of a text, in order.

    Raises AssertionError if there is none, or if a step cannot be followed.
    """
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
    """Return the lines of all blocks that are fenced as `sh`.

    Raises AssertionError if there is no such block.
    """
    lines = [line for block in _COMMANDS.findall(text) for line in block.splitlines()]
    assert lines, "no commands"
    return lines


def run_as_printed(
    text: str, check: str, checkout: Path, folder: Path
) -> list[subprocess.CompletedProcess[str]]:
    """Run the ReFrame commands that a text prints for a check, in a copy of the checkout.

    The only options that are added write files to `folder`, switch colours off, and accept runs
    that were disturbed by other work on this host.
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
    """Copy the folders that `FOLDERS` names to `folder`, and return it."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def follow(text: str, checkout: Path) -> dict[str, int]:
    """Follow the steps of a text in a copy of the checkout.

    Returns path -> number of lines that were added.
    """
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
