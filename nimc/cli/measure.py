"""`nimc measure`: the slowdown of a command, as a campaign of one case."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from nimc.campaign.prepare import prepare_read
from nimc.cli import options
from nimc.cli.answer import Answer, answers
from nimc.cli.run import fresh_option, pairs_option, reported
from nimc.run.progress import Progress
from records import marked_yaml, units
from records.acceptance import LIMITS
from records.calls import Call
from records.errors import InputError
from records.measured import COMMAND_CHECK, reworded
from records.run import CAP, FLOOR

#: Characters that the name of a case may not have, and its longest part of a program's name.
_UNSAFE, _LONGEST = re.compile(r"[^A-Za-z0-9._+]+"), 40
#: Limits of disturbance that `--busy` leaves out: the host's. Writes and their proof are judged.
_OF_HOST = tuple(name for name in LIMITS if name != "foreign_share")
#: The campaign's values -> the options that they come from; of others the command alone.
_OPTIONS: dict[marked_yaml.Keys, str] = {
    (): "measure",
    ("injector", "rate"): "--rate",
    ("factors", "rate"): "--rate",
    ("workloads", 0, "set"): "--nodes, --ranks",
    ("workloads", 0, "set", "nodes"): "--nodes",
    ("workloads", 0, "set", "ranks_per_node"): "--ranks",
    ("workloads", 0, "set", "repeat"): "--repeat",
}
#: Options that a command that resumes a run does not repeat, or adds itself.
_OF_THIS_CALL = (
    "--machine",
    "--results",
    "--pairs",
    "--fresh",
    "--json",
    "-q",
    "--quiet",
    "-v",
    "--verbose",
)


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("program", nargs=-1, required=True, metavar="[--] PROGRAM [ARG]...")
@options.machine_option
@click.option("--nodes", type=click.IntRange(min=1), default=1, help="Target nodes.")
@click.option(
    "--ranks",
    type=click.IntRange(min=1),
    metavar="N",
    help="Ranks on each node, by the machine's MPI launcher [default: one process without it].",
)
@click.option(
    "--rate",
    metavar="RATE",
    default="full",
    help="Of each writer: full, a share of that (25%), or 500MB/s.",
)
@click.option(
    "--figure",
    metavar="REGEX",
    default="",
    show_default=False,
    help="The number to compare, in the standard output: the last match of this regular"
    " expression, or of its first group [default: the seconds that PROGRAM takes].",
)
@click.option("--unit", metavar="U", help="Unit of --figure, such as MB/s or ms.")
@click.option(
    "--higher/--lower",
    default=None,
    help="Which figures are better [default: lower times, higher rates, by --unit].",
)
@click.option(
    "--worst",
    is_flag=True,
    help="The worst match instead of the last one, if each rank prints one.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    metavar="N",
    default=1,
    help="Start PROGRAM so often in each run; doubled until the run is long enough.",
)
@click.option("--busy", is_flag=True, help="Record, but do not judge, what else the host does.")
@pairs_option(f"at least {FLOOR}, by default {CAP}")
@options.results_option
@fresh_option
@answers()
@options.progress_options
def measure_command(
    program: tuple[str, ...],
    machine: str,
    results: Path,
    progress: Progress,
    fresh: bool,
    pairs: int | None,
    **request: Any,
) -> Answer | int:
    """Measure how much writes slow PROGRAM, or resume the latest unfinished run of it.

    PROGRAM is started in the current folder, without a shell, and reads nothing: its standard input
    is /dev/null. It must end by itself, with exit status 0. What it prints is kept.
    """
    if not request["figure"]:
        options.useless_without("--figure", "--unit", "--higher", "--lower", "--worst")
    prepared = prepare_read(campaign_of(program, **request), machine)
    _require_program(program[0], in_job=prepared.slurm)
    options_given = options.words_given(*_OF_THIS_CALL)
    call = Call(("measure",), options_given, ("--", *program), Path.cwd())
    parts = prepared, call, results, progress
    return reported(*parts, fresh=fresh, pairs=pairs, in_words=reworded)


def campaign_of(program: Sequence[str], **request: Any) -> marked_yaml.Marked:
    """The campaign that a command stands for, as of a file. Raises InputError."""
    nodes, ranks = request["nodes"], request["ranks"]
    if nodes > 1 and not ranks:
        raise InputError(f"--nodes: {nodes} found; allowed: 1, or with --ranks")
    try:
        words = shlex.join(program).encode().decode()
    except UnicodeEncodeError:
        raise InputError("PROGRAM: not UTF-8 text; allowed: words of UTF-8") from None
    settings = {
        "command": words,
        **_figure(request),
        **{key: value for key, value in _layout(request).items() if value is not None},
    }
    name = _name(program[0], settings)
    campaign: dict[str, Any] = {
        "name": name,
        "title": words,
        "workloads": [{"check": COMMAND_CHECK, "case": name, "set": settings, "expect": "5s"}],
        **_rate(request["rate"]),
    }
    if request["busy"]:
        campaign["verify"] = dict.fromkeys(_OF_HOST)
    text = yaml.safe_dump(campaign, sort_keys=False, allow_unicode=True)
    marked = marked_yaml.parse(text, Path("measure"))
    marked.options = _OPTIONS
    return marked


def _rate(rate: str) -> dict[str, Any]:
    """The writers' rate; a share of the full one is a level, the only one. Raises InputError."""
    if not rate.endswith("%"):
        return {"injector": {"rate": rate}}
    units.share(rate, "--rate")
    return {"factors": {"rate": [rate]}}


def _layout(request: Mapping[str, Any]) -> dict[str, int | None]:
    """Variables of the check that differ from its own."""
    return {
        "nodes": request["nodes"] if request["nodes"] > 1 else None,
        "ranks_per_node": request["ranks"],
        "repeat": request["repeat"] if request["repeat"] > 1 else None,
    }


def _name(program: str, settings: Mapping[str, Any]) -> str:
    """Of campaign and case: the program's, and the beginning of a digest of all that is run.

    So two commands never share a name, nor does one share that of a workload, with its references.
    """
    plain = _UNSAFE.sub("_", os.path.basename(program)).lstrip("._+")[:_LONGEST] or COMMAND_CHECK
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    return f"{plain}-{digest[:6]}"


def _figure(request: Mapping[str, Any]) -> dict[str, str]:
    """Settings of the figure of merit. Raises InputError."""
    pattern = request["figure"]
    unit = request["unit"]
    higher = request["higher"]
    if not pattern:
        return {}
    try:
        re.compile(pattern)
    except re.error as error:
        raise InputError(f"--figure: {pattern!r} found: {error}; allowed: a regex") from None
    if unit is not None and unit.split() != [unit]:
        raise InputError(f"--unit: {unit!r} found; allowed: a word such as MB/s")
    _, si = units.si(unit or "1")
    if higher is None and si != "s" and not si.endswith("/s"):
        raise InputError(
            "--figure: which numbers are better is not known; give --higher or --lower"
        )
    better = si.endswith("/s") if higher is None else higher
    settings = {"figure": pattern, "unit": unit or "1", "better": "higher" if better else "lower"}
    return {**settings, "which": "worst"} if request["worst"] else settings


def _require_program(program: str, *, in_job: bool) -> None:
    """Raise InputError for a program that the shell would not find either.

    A name without `/` may be one that only a job of Slurm finds, with its modules.
    """
    if "/" in program or not in_job:
        options.require_program("PROGRAM", program)
