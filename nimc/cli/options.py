"""Arguments and options that several commands of `nimc` have."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from nimc.cli.answer import log
from records import units
from records.checkout import ROOT
from records.errors import InputError, suggestion
from records.files import require_output_file, require_output_folder, resolved_output

# Types of arguments and options that are paths.


_CAMPAIGNS_FOLDER = ROOT / "campaigns"


class CampaignPath(click.Path):
    """The path of a campaign file; `quick` means `campaigns/quick.yaml` of this checkout."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path. Raises InputError if a name is unknown. A path may be missing."""
        path = Path(value)
        if path.suffix or "/" in str(value):
            return path
        files = _campaigns()
        if path.name in files:
            return files[path.name]
        file = path.with_suffix(".yaml")
        closest = f", did you mean '{file}'?" if file.exists() else suggestion(path.name, files)
        raise InputError(
            f"unknown campaign '{value}'{closest}; allowed: a path, or one of {', '.join(files)}"
        )

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return completions: names of campaigns, and files."""
        names = [CompletionItem(name) for name in _campaigns() if name.startswith(incomplete)]
        return [*names, CompletionItem(incomplete, type="file")]


def _campaigns() -> dict[str, Path]:
    return {file.stem: file for file in sorted(_CAMPAIGNS_FOLDER.glob("*.yaml"))}


#: Patterns of the files and folders in a run that commands open. If one of them were a pipe, the
#: command would block.
_OPENED_PATTERNS = (
    "run.json",
    "samples",
    "samples/*",
    "counters",
    "counters/*",
    "provenance",
    "provenance/*",
)


class RunPath(click.Path):
    """The path of a readable run or file. Pipes and devices are refused, also within a run."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path. Raises InputError."""
        path = Path(value)
        if not str(value):  # for example, a variable of the shell was not set
            raise InputError("'' found; allowed: the path of a run or a file")
        try:
            opened_paths = [opened for pattern in _OPENED_PATTERNS for opened in path.glob(pattern)]
            for file in (path, *opened_paths):
                mode = file.stat().st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    raise InputError(f"{file}: neither a file nor a folder")
                if not os.access(file, os.R_OK | (os.X_OK if stat.S_ISDIR(mode) else 0)):
                    raise InputError(f"{file}: {os.strerror(errno.EACCES)}")
        except FileNotFoundError as error:
            raise InputError(f"{os.fsdecode(error.filename)}: does not exist") from None
        except OSError as error:
            raise InputError(f"{os.fsdecode(error.filename)}: {error.strerror}") from None
        except ValueError as error:  # the path has a null byte
            raise InputError(f"{value!r}: {error}") from None
        return path


#: Type of an option that is a file to read.
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class OutputPath(click.Path):
    """The path of a file (or of a folder, if `folder` is true) that a command may write.

    `records.files` checks whether it may. Other paths are refused before the command starts its
    work.
    """

    def __init__(self, *, folder: bool = False) -> None:
        super().__init__(file_okay=not folder)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path. Raises InputError."""
        text = str(value)
        if not text or "\0" in text:
            option = max(param.opts, key=len) if param else self.name
            raise InputError(f"{option}: {text!r} found; allowed: a path")
        path = resolved_output(Path(text))
        if self.file_okay:
            if not os.access(path.absolute().parent, os.W_OK | os.X_OK):
                option = max(param.opts, key=len) if param else self.name
                allowed = "a file in a folder that you may write to"
                raise InputError(f"{option}: {path}: allowed: {allowed}")
            require_output_file(path)
        else:
            require_output_folder(path)
        return path


class ResultsPath(click.Path):
    """The path of a folder for runs. It may be missing."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path. Raises InputError."""
        text = str(value)
        if not text or "\0" in text or (os.path.exists(text) and not os.path.isdir(text)):
            raise InputError(f"--results: {text!r} found; allowed: a folder")
        if os.path.islink(text) and not os.path.exists(text):
            target = os.readlink(text)
            raise InputError(f"--results: {text!r} is a link to {target}, which does not exist")
        if os.path.exists(os.path.join(text, "run.json")):
            raise InputError(f"--results: {text!r} is a run; allowed: the folder that it is in")
        return Path(text)


def require_writable_results(results: Path) -> None:
    """Raise InputError if this user may not create runs in a folder of results."""
    paths = (results, *results.absolute().parents)
    existing = next(path for path in paths if os.path.exists(path))
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"--results: '{results}' found; allowed: a folder that you may write to")


campaign_argument = click.argument("campaign", type=CampaignPath())


# The option for the machine, and other options.


def complete_machine(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of machines that begin with `incomplete`."""
    # Not at the top, since this import loads YAML, which few commands need.
    from records.machine.site import known_machines

    return [name for name in known_machines(ROOT) if name.startswith(incomplete)]


def _machine_or_default(ctx: click.Context, _param: click.Parameter, value: str | None) -> str:
    # Not at the top, since this import loads the checks, which few commands need.
    from nimc.readiness.reframe_config import LOCALHOST, default_machine

    if value:
        return value
    if ctx.params.get("analysis_only"):  # `reproduce` then uses no machine
        return LOCALHOST
    name = default_machine()
    if name != LOCALHOST:
        log(f"machine {name}: this host matches 'hostnames' in configs/{name}.py; see --machine")
    return name


#: Option `--machine`, the name of a machine.
machine_option = click.option(
    "--machine",
    metavar="M",
    envvar="NIMC_MACHINE",
    callback=_machine_or_default,
    shell_complete=complete_machine,
    help="Name of a machine, as in site/NAME.yaml [default: $NIMC_MACHINE, or else the machine that"
    " matches this host's name].",
)

force_option = click.option(
    "--force",
    is_flag=True,
    help="Also show runs with integrity faults; everything made from them is marked.",
)


class DurationParam(click.ParamType[float]):
    """A duration with its unit, such as `10min`. The value is in seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the duration in seconds. Raises InputError."""
        return units.duration_s(value, param.opts[0] if param else self.name)


DURATION = DurationParam()


def completing(names: Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    """Return a function for click that returns those of `names()` that begin with a given text.

    `names` is called only when the shell completes a command line.
    """

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def complete_case(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the entries of the command's campaign that begin with `incomplete`.

    The name of a case begins with that of its entry. Returns an empty list if the campaign's file
    cannot be read.
    """
    from records import yaml_file

    # While the value of an option is completed, click has not yet assigned words to arguments.
    campaign = ctx.params.get("campaign") or next(iter(ctx.args), "")
    with suppress(InputError, OSError, AttributeError, TypeError, KeyError):
        file = CampaignPath().convert(campaign, None, ctx)
        entries = yaml_file.load(file).data["workloads"]
        names = (str(entry.get("case") or entry["check"]) for entry in entries)
        return [name for name in names if name.startswith(incomplete)]
    return []


case_option = click.option(
    "--case",
    "cases",
    metavar="CASE",
    multiple=True,
    shell_complete=complete_case,
    help="Only this case. May be repeated.",
)


def share(_ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """Return a share, which the user gives as `0.3` or `30%`.

    Raises InputError unless it is above 0 and at most 1. Returns None if the option was not given.
    """
    if text is None:
        return None
    with suppress(ValueError):
        if 0 < (value := float(units.fraction(text))) <= 1:
            return value
    allowed = "a share above 0 and at most 1, such as 0.3 or 30%"
    raise InputError(f"{param.opts[0]}: {text} found; allowed: {allowed}")


def details_option(detail_names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option `-v` (`--verbose`), whose value is the command's argument `details`.

    Its help says that the command then also shows `detail_names`.
    """
    return click.option(
        "-v", "--verbose", "details", is_flag=True, help=f"Also show {detail_names}."
    )


results_option = click.option(
    "--results", type=ResultsPath(), default=Path("results"), help="Folder for runs."
)

#: Option `--wait`: how long a job of the command may wait in the queue.
wait_option = click.option(
    "--wait",
    "wait_s",
    type=DURATION,
    default="10min",
    help="How long the job may wait in the queue before it is cancelled.",
)


#: Value of the argument `progress` -> help of the option that sets it (`--verbose`, `--quiet`).
_PROGRESS_HELP = {
    "verbose": "Also print a line for every run, where its logs are, and details of results.",
    "quiet": "Print errors and results only, no progress.",
}


def progress_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options `-q` and `-v`, which set the command's argument `progress`.

    If both are given, the last one counts.
    """
    for level, help_text in _PROGRESS_HELP.items():
        flags = (f"-{level[0]}", f"--{level}", "progress")
        option = click.option(
            *flags, flag_value=level, default="normal", show_default=False, help=help_text
        )
        function = option(function)
    return function


def output_option(
    help_text: str, *, folder: bool = False, required: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option `--output` (`-o`): the file, or with `folder` the folder, to write."""
    path_type = OutputPath(folder=folder)
    return click.option("-o", "--output", type=path_type, required=required, help=help_text)


# Options that cannot be combined.


def allow_only(mode: str, *allowed: str) -> None:
    """Raise InputError if an option was given that is neither `mode` nor in `allowed`."""
    for name in names_given():
        if name not in (mode, *allowed):
            raise InputError(
                f"{name}: cannot be combined with {mode};"
                f" allowed: {', '.join(allowed) or 'one of them'}"
            )


def reject_without(mode: str, *options: str) -> None:
    """Raise InputError if one of `options` was given, since they have no effect without `mode`.

    Call it only if the option `mode` was not given.
    """
    for name in names_given():
        if name in options:
            raise InputError(f"{name}: has no effect without {mode}; allowed: both, or neither")


def words_given(omitted: Collection[str] = ()) -> tuple[str, ...]:
    """Return the given options and their values as words of a command line, without `omitted`."""
    words = []
    for option, value in _options_given():
        if option.opts[0] in omitted:
            continue
        if option.is_flag:
            words.append(_used_name(option, value))
        else:
            words += [option.opts[0], str(value)]
    return tuple(words)


def names_given() -> list[str]:
    """Return the names of the options that were given."""
    return [_used_name(option, value) for option, value in _options_given()]


def _used_name(option: click.Option, value: Any) -> str:
    """Return the name of an option with which the user gave this value.

    A flag such as `--higher/--lower` has two names.
    """
    if option.secondary_opts and not value:
        return option.secondary_opts[0]
    return option.opts[0]


def _options_given() -> Iterator[tuple[click.Option, Any]]:
    """Yield the options that were given on the command line, and their values."""
    context = click.get_current_context()
    for param in context.command.params:
        source = context.get_parameter_source(str(param.name))
        if isinstance(param, click.Option) and source is ParameterSource.COMMANDLINE:
            yield param, context.params[str(param.name)]
