"""The command `nimc measure`, which measures the slowdown of a user's program.

It makes a campaign with one case from its options, and runs this campaign.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import yaml

from nimc.campaign.request import request_of
from nimc.cli import options
from nimc.cli.answer import Answer, prints_answer
from nimc.cli.pairs import pairs_option
from nimc.cli.programs import require_program
from nimc.cli.run import fresh_option, run_and_report
from nimc.run.progress import Progress
from records import units, yaml_file
from records.acceptance import DISTURBANCE_LIMITS
from records.calls import Call
from records.errors import InputError
from records.measured import COMMAND_CHECK, reworded_for_measure
from records.run import PAIRS_CAP, PAIRS_FLOOR

#: Characters that are not allowed in the name of a case.
_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9._+]+")
#: Largest number of characters of the program's name in the name of the case.
_MAX_PROGRAM_NAME_LENGTH = 40
#: Limits of disturbance that `--busy` turns off: limits on what else the host does. The limit on
#: network traffic of others remains, and writes must still be proven.
_HOST_LIMITS = tuple(name for name in DISTURBANCE_LIMITS if name != "foreign_share")
#: Location in the campaign -> the options from which its value comes. Messages about errors there
#: name the options instead of the location.
_OPTIONS_BY_LOCATION: dict[yaml_file.Keys, str] = {
    (): "measure",
    ("injector", "rate"): "--rate",
    ("factors", "rate"): "--rate",
    ("workloads", 0, "set"): "--nodes, --ranks",
    ("workloads", 0, "set", "nodes"): "--nodes",
    ("workloads", 0, "set", "ranks_per_node"): "--ranks",
    ("workloads", 0, "set", "repeat"): "--repeat",
}
#: Options that are not stored with a run. When `nimc` prints the command with which the run can be
#: resumed, it adds those of them that are needed.
_UNSTORED_OPTIONS = (
    "--machine",
    "--results",
    "--pairs",
    "--fresh",
    "--json",
    "-q",
    "-v",
)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The values of the options that decide what is measured."""

    #: Number of target nodes.
    nodes: int
    #: Number of ranks on each node; None: one process, started without the MPI launcher.
    ranks: int | None
    #: Rate of each writer.
    rate: str
    #: Regular expression that finds the figure to compare; empty: the program's time is compared.
    figure: str
    #: Unit of the figure.
    unit: str | None
    #: Whether higher figures are better; None: this follows from the unit.
    higher: bool | None
    #: Whether the worst match of the regular expression is used instead of the last one.
    worst: bool
    #: How many times each run starts the program.
    repeat: int
    #: Whether runs are accepted even if the host does other things at the same time.
    busy: bool


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
    help="Rate of each writer: full, a share of the full rate (25%), or 500MB/s.",
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
    help="Take the worst match instead of the last one, if each rank prints one.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    metavar="N",
    default=1,
    help="How often each run starts PROGRAM; doubled until the run is long enough.",
)
@click.option(
    "--busy", is_flag=True, help="Record what else the host does, but do not reject runs for it."
)
@pairs_option(
    f"at least {PAIRS_FLOOR}, by default {PAIRS_CAP}; a finished run with fewer pairs is resumed"
)
@options.results_option
@fresh_option
@prints_answer()
@options.progress_options
def measure_command(
    program: tuple[str, ...],
    machine: str,
    results: Path,
    progress: Progress,
    fresh: bool,
    pairs: int | None,
    **option_values: Any,
) -> Answer | int:
    """Measure how much writes slow PROGRAM, or resume the latest unfinished run of it.

    PROGRAM is started in the current folder, without a shell, and reads nothing: its standard input
    is /dev/null. It must end by itself, with exit status 0. What it prints is kept.
    """
    measurement = Measurement(**option_values)
    if not measurement.figure:
        options.reject_without("--figure", "--unit", "--higher", "--lower", "--worst")
    request = request_of(campaign_of(program, measurement), machine)
    require_program("PROGRAM", program, in_job=request.uses_slurm)
    words = options.words_given(omitted=_UNSTORED_OPTIONS)
    call = Call(("measure",), words, ("--", *program), Path.cwd())
    return run_and_report(
        request, call, results, progress, fresh=fresh, pairs=pairs, reword=reworded_for_measure
    )


def campaign_of(program: Sequence[str], measurement: Measurement) -> yaml_file.YamlDocument:
    """Return a campaign with one case, which measures a program. Raises InputError."""
    if measurement.nodes > 1 and not measurement.ranks:
        raise InputError(f"--nodes: {measurement.nodes} found; allowed: 1, or more with --ranks")
    command_line = shlex.join(program)
    try:
        command_line.encode()
    except UnicodeEncodeError:
        raise InputError("PROGRAM: not UTF-8 text; allowed: words of UTF-8") from None
    settings = {
        "command": command_line,
        **_figure_settings(measurement),
        **_layout_settings(measurement),
    }
    name = _case_name(program[0], settings)
    campaign: dict[str, Any] = {
        "name": name,
        "title": command_line,
        "workloads": [{"check": COMMAND_CHECK, "case": name, "set": settings, "expect": "5s"}],
        **_rate_keys(measurement.rate),
    }
    if measurement.busy:
        campaign["verify"] = dict.fromkeys(_HOST_LIMITS)
    text = yaml.safe_dump(campaign, sort_keys=False, allow_unicode=True)
    document = yaml_file.parse(text, Path("measure"))
    document.options = _OPTIONS_BY_LOCATION
    return document


def _rate_keys(rate: str) -> dict[str, Any]:
    """Return the keys of the campaign that set the writers' rate. Raises InputError.

    A share of the full rate is set by the factor `rate` with one level. A rate in bytes per second
    is set by the key `injector`.
    """
    if not rate.endswith("%"):
        return {"injector": {"rate": rate}}
    units.share(rate, "--rate")
    return {"factors": {"rate": [rate]}}


def _layout_settings(measurement: Measurement) -> dict[str, int]:
    """Return the check's variables (name -> value) for nodes, ranks and repetitions.

    Variables that keep their default are left out.
    """
    settings = {}
    if measurement.nodes > 1:
        settings["nodes"] = measurement.nodes
    if measurement.ranks is not None:
        settings["ranks_per_node"] = measurement.ranks
    if measurement.repeat > 1:
        settings["repeat"] = measurement.repeat
    return settings


def _case_name(program: str, settings: Mapping[str, Any]) -> str:
    """Return the name of the campaign and of its case: the program's name and a digest of settings.

    The digest makes the names of different commands differ. It also makes them differ from the
    names of workloads, since the site's references for a workload do not apply to a command.
    """
    safe_name = _UNSAFE_CHARACTERS.sub("_", os.path.basename(program)).lstrip("._+")
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    return f"{safe_name[:_MAX_PROGRAM_NAME_LENGTH] or COMMAND_CHECK}-{digest[:6]}"


def _figure_settings(measurement: Measurement) -> dict[str, str]:
    """Return the check's variables (name -> value) for the figure to compare. Raises InputError."""
    pattern = measurement.figure
    unit = measurement.unit
    is_higher_better = measurement.higher
    if not pattern:
        return {}
    try:
        re.compile(pattern)
    except re.error as error:
        raise InputError(
            f"--figure: {pattern!r} found: {error}; allowed: a regular expression"
        ) from None
    if unit is not None and unit.split() != [unit]:
        raise InputError(f"--unit: {unit!r} found; allowed: a word such as MB/s")
    _, si_unit = units.si_factor(unit or "1")
    if is_higher_better is None:
        is_higher_better = si_unit.endswith("/s")
        if not is_higher_better and si_unit != "s":
            raise InputError(
                "--figure: which numbers are better is not known; give --higher or --lower"
            )
    better = "higher" if is_higher_better else "lower"
    settings = {"figure": pattern, "unit": unit or "1", "better": better}
    if measurement.worst:
        settings["which"] = "worst"
    return settings
