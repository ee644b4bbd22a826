"""Open|SpeedShop: events, samples and MPI calls of each rank and of its functions."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from records.files import replace_text
from records.programs import ask, first_line, last_line
from reframe_tests.tools import base
from reframe_tests.tools.base import FOLDER, RANK, CounterRow, State, Tool, ToolError, figure

# Makes views of the files that Open|SpeedShop's collectors left: `ossutil`, then `openss -batch`.
#
# Both programs exit with 0 when there is nothing to see, so their output and files are checked.


#: Folder of the collectors' files, within that of the run.
RAW = "raw"
#: What `ossutil` makes; it is not changed afterwards.
_DATABASE = "X.0.openss"
_COPY, _PROCESSES, _COMMANDS = "copy.openss", "processes.txt", "commands.txt"
#: A process and its rank, in the output of `expstatus`. Views by rank would include the processes
#: that have none, such as a script that starts the program.
_PROCESS = re.compile(r"^\s+(-h \S+ -p \d+)\b.*? -r (\d+)\b", re.MULTILINE)
_ATTEMPTS = 5
_GATHER_TIMEOUT_S = 600


def view_path(folder: Path, rank: int, view: str) -> Path:
    """File of a rank's view: `functions` or `linkedobjects`."""
    return folder / f"rank-{rank}.{view}.csv"


def gather(folder: Path, ranks: int, views: Sequence[str]) -> None:
    """Write the views of each rank, unless they are there. Raises ToolError."""
    expected = [view_path(folder, rank, view) for rank in range(ranks) for view in views]
    if all(path.is_file() for path in expected):
        return
    database = folder / _DATABASE
    if not any((folder / RAW).glob("*")):
        raise ToolError(f"{folder / RAW}: no data: was the application started by ossrun?")
    said = _run(folder, ["ossutil", RAW])
    if not database.is_file():
        raise ToolError(f"{database}: not made by ossutil: {first_line(said)}")
    # openss may change the database that it reads.
    shutil.copyfile(database, folder / _COPY)
    processes = folder / _PROCESSES
    _ask(folder, {processes: "expstatus"}, "Experiment definition")
    text = processes.read_text(errors="replace")
    processes_of = {int(rank): process for process, rank in _PROCESS.findall(text)}
    absent = [rank for rank in range(ranks) if rank not in processes_of]
    if absent and (processes_of or ranks > 1):
        count = f"found {len(processes_of)} of {ranks}"
        raise ToolError(f"{database}: no data of rank {absent[0]}; {count}")
    commands = {
        view_path(folder, rank, view): f"expview {processes_of.get(rank, '')} -v {view} -F csv"
        for rank in range(ranks)
        for view in views
    }
    _ask(folder, commands, ",")
    (folder / _COPY).unlink()


def _ask(folder: Path, commands: Mapping[Path, str], complete: str) -> None:
    """Write what each command prints to its file, which must contain `complete`.

    Raises ToolError with what is there instead. openss now and then loses a command (it reads the
    line after it freed it), so it is asked again.
    """
    for _ in range(_ATTEMPTS):
        lacking = [path for path in commands if complete not in _content(path)]
        if not lacking:
            return
        # Commands are read from a file, since a pipe is not read whole.
        words = [f"{commands[path]} > {path.name}" for path in lacking]
        text = "\n".join([f"exprestore -f {_COPY}", *words, "exit", ""])
        replace_text(folder / _COMMANDS, text)
        with (folder / _COMMANDS).open() as file:
            said = _run(folder, ["openss", "-batch"], file)
    if lacking := [path for path in commands if complete not in _content(path)]:
        raise ToolError(f"{lacking[0]}: {last_line(_content(lacking[0]) or said)}")


def _content(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""


def _run(folder: Path, words: Sequence[str], stdin: IO[str] | None = None) -> str:
    """What a program printed, also in `PROGRAM.txt`. Raises ToolError if it does not run."""
    # Where `openss` finds its plugins and its Python, derived from its own place.
    program = shutil.which("openss")
    prefix = Path(program).resolve().parent.parent if program else Path()
    plugins = str(next(iter(sorted(prefix.glob("lib*/openspeedshop"))), prefix))
    environment = {**os.environ, "OPENSS_PLUGIN_PATH": plugins, "PYTHONPATH": plugins}
    answer = ask(words, environment, timeout_s=_GATHER_TIMEOUT_S, stdin=stdin, folder=folder)
    if answer.status is None:
        raise ToolError(f"{folder}: {words[0]} does not run: {answer.reason}")
    replace_text(folder / f"{words[0]}.txt", answer.text)
    if not answer.ok:
        said = f"exit status {answer.status}: {first_line(answer.text)}"
        raise ToolError(f"{folder}: {words[0]}: {said}")
    return answer.text


# Views of Open|SpeedShop as CSV (`expview -F csv`).
#
# The CSV has no quotes: the last column, a name, may contain commas. An empty cell means 0.


#: Name of the last line of some views, which has the sums.
_SUMMARY = "Report Summary"
#: Names of the last column.
_NAMES = ("Function (defining location)", "LinkedObject")


@dataclass(frozen=True)
class View:
    """One view of one rank."""

    path: Path
    #: Names of the columns of numbers.
    columns: list[str]
    #: Name (function or linked object) and its numbers, one per column. Names may repeat.
    rows: list[tuple[str, list[float]]]

    def values(self, column: str) -> list[tuple[str, float]]:
        """Name and value of each row. Raises ToolError if there is no such column.

        Open|SpeedShop prints names of events in lower case in some views.
        """
        names = [name.lower() for name in self.columns]
        if column.lower() not in names:
            raise ToolError(f"{self.path}: no column {column!r}; found: {', '.join(self.columns)}")
        place = names.index(column.lower())
        return [(name, numbers[place]) for name, numbers in self.rows]

    def total(self, column: str) -> float:
        """Sum over all rows."""
        return sum(value for _, value in self.values(column))


def read_view(path: Path) -> View:
    """The view in a file. Raises ToolError, with the file's own line if it has no table."""
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        raise ToolError(f"{path}: no such file: openss made no view") from None
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise ToolError(f"{path}: empty: openss has no data of this rank")
    columns = lines[0].split(",")
    if columns[-1] not in _NAMES or len(lines) < 2:
        raise ToolError(f"{path}: no table: {lines[0].strip()}")
    rows = []
    for line in lines[1:]:
        *numbers, name = line.split(",", len(columns) - 1)
        try:
            values = [figure(number or 0) for number in numbers]
        except ValueError:
            values = []
        if len(values) != len(columns) - 1:
            raise ToolError(f"{path}: not a row of {len(columns)} columns: {line!r}")
        if name != _SUMMARY:
            rows.append((name, values))
    return View(path, columns[:-1], rows)


#: Programs of Open|SpeedShop and PAPI that a run needs.
_PROGRAMS = ("ossrun", "ossutil", "openss", "papi_command_line")
_CLOCK = "perf::TASK-CLOCK"
#: Events of `hwcsamp`, which takes at most six. PAPI counts user level only. The clock is the last:
#: the collector of the last commit loses events that follow the first, and prints 0 for them.
EVENTS = (
    "perf::PAGE-FAULTS",
    "perf::CONTEXT-SWITCHES:u=1:k=1",
    "PAPI_TOT_CYC",
    "PAPI_TOT_INS",
    "PAPI_L3_TCM",
    _CLOCK,
)
#: Least share of the sampled CPU time that the clock shows if it was counted (0.7 to 2 were seen).
_CLOCK_SHARE = 0.1
#: Event of `hwc` and `hwctime`: the first that can be counted.
OVERFLOWS = ("PAPI_TOT_CYC", _CLOCK)
#: Events between two samples of `hwc` and `hwctime`.
_THRESHOLD = "10000000"
#: Unit and factor of events that are not counts.
_UNITS = {_CLOCK: ("s", 1e-9)}

_TIME = "CPU time"
_SECONDS = "Exclusive CPU time in seconds."
_CALLS = "Number of Calls"
_CALL_MS = "Exclusive MPI Call Time(ms)"

#: What runs before the launcher starts, and in each rank.
_FRONT, _RANK = (
    Path(__file__).with_name(f"openspeedshop_{part}.sh.in").read_text().replace("{RANK}", RANK)
    for part in ("front", "rank")
)
#: Messages of collectors that have lost counts; Open|SpeedShop exits with 0 nevertheless.
_REFUSALS = re.compile(r"^.*(?:OpenSS_PAPIerror|cannot be counted|PAPI_overflow\(\)).*$", re.M)
#: What `papi_command_line` says of an event.
_FAILED = re.compile(r"^Failed adding: (\S+)\s*\nbecause: (.*)$", re.M)
_ADDED = re.compile(r"^Successfully added: (\S+)", re.M)


@dataclass(frozen=True)
class OpenSpeedShop(Tool):
    """See `base.Tool`; a collector of Open|SpeedShop, what it is asked, and which views it has."""

    collector: str
    #: Its rate or threshold; empty if it has none.
    setting: str = ""
    value: str = ""
    #: Candidates of its events, and how many it takes.
    events: tuple[str, ...] = ()
    most: int = 0
    views: tuple[str, ...] = ("linkedobjects", "functions")
    name: str = ""

    def wrap(self, launcher: Sequence[str], application: Sequence[str]) -> list[str]:
        """See the interface. Events are tried once, before the launcher."""
        variable = self._variable("EVENTS" if self.most > 1 else "EVENT")
        words = [variable, str(self.most), " ".join(self.events)]
        front = ["sh", "-c", _FRONT, self.name, FOLDER, *words]
        return [
            *(*front, *launcher, "sh", "-c", _RANK, self.name, FOLDER, self.collector),
            *application,
        ]

    def environment(self) -> dict[str, str]:
        """Rates and thresholds."""
        return {self._variable(self.setting): self.value} if self.setting else {}

    def _variable(self, name: str) -> str:
        """The variable of the environment that sets this of the collector."""
        return f"OPENSS_{self.collector.upper()}_{name}"

    def parse(self, folder: Path, ranks: int) -> list[CounterRow]:
        """See the interface. Gathers the files of the run first, on the node where this runs."""
        for path in base.files_of(folder, ranks, "rank", ".err").values():
            if refusal := _REFUSALS.search(path.read_text(errors="replace")):
                raise ToolError(f"{path}: {refusal[0].strip()}")
        gather(folder, ranks, self.views)
        return [row for rank in range(ranks) for row in self._rows(folder, rank)]

    def missing(self) -> str | None:
        """See the interface."""
        for program in _PROGRAMS:
            if shutil.which(program) is None:
                return f"{program} is not on PATH: docs/tools.md says which build is needed"
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            words = [word.replace(FOLDER, place) for word in self.wrap([], ["true"])]
            answer = ask(words, {**os.environ, "OMP_NUM_THREADS": "1"}, folder=folder)
            if not answer.ok:
                return f"Open|SpeedShop does not run: {first_line(answer.stderr)}"
            if not any((folder / RAW).iterdir()):
                return "Open|SpeedShop leaves no data: its collectors are not preloaded"
        return None

    def _rows(self, folder: Path, rank: int) -> list[CounterRow]:
        functions = read_view(view_path(folder, rank, "functions"))
        if "linkedobjects" not in self.views:
            return _calls(functions, rank)
        objects = read_view(view_path(folder, rank, "linkedobjects"))
        rows = self._counts(folder, objects, rank) if self.events else []
        if self.most > 1:
            _require_clock(objects, rows)
        if _SECONDS in objects.columns:
            time_s = objects.total(_SECONDS)
            nameless_s = max(0.0, time_s - functions.total(_SECONDS))
            rows.append(CounterRow(rank, _TIME, time_s, "s"))
            rows.append(CounterRow(rank, f"{_TIME} in no known function", nameless_s, "s"))
        return rows

    def _counts(self, folder: Path, objects: View, rank: int) -> list[CounterRow]:
        """Rows of the events; without a value for those that the machine refused."""
        tried = folder / "events.txt"
        if not tried.is_file():
            raise ToolError(f"{tried}: no such file: the events were not tried")
        text = tried.read_text(errors="replace")
        column = "{}" if self.collector == "hwcsamp" else "Exclusive {} Counts"
        rows = []
        for event in _ADDED.findall(text)[: self.most]:
            unit, factor = _UNITS.get(event, ("count", 1.0))
            count = objects.total(column.format(event)) * factor
            rows.append(CounterRow(rank, event, count, unit))
        for event, reason in _FAILED.findall(text) if self.most > 1 else ():
            # An event that exists may lack a counter, because of the others.
            exists = reason.startswith("Event exists")
            state: State = "not counted" if exists else "not supported"
            rows.append(CounterRow(rank, event, None, "count", state))
        return rows


def _require_clock(objects: View, rows: Sequence[CounterRow]) -> None:
    """Raise ToolError if the collector has lost the last event, and so maybe all others."""
    clock_s = next((row.value for row in rows if row.event == _CLOCK), None) or 0.0
    sampled_s = objects.total(_SECONDS)
    if clock_s < _CLOCK_SHARE * sampled_s or not clock_s:
        raise ToolError(
            f"{objects.path}: {_CLOCK}, the last event, has {clock_s:.3f} s of {sampled_s:.3f} s of"
            " CPU time: this build of Open|SpeedShop loses events (docs/tools.md)"
        )


def _calls(functions: View, rank: int) -> list[CounterRow]:
    """Time in each MPI function, and its number of calls."""
    columns = ((_CALL_MS, "time", "s", 1e-3), (_CALLS, "calls", "count", 1.0))
    return [
        CounterRow(rank, f"{name.split(' ')[0].removeprefix('P')} {what}", value * factor, unit)
        for column, what, unit, factor in columns
        for name, value in functions.values(column)
    ]


_OVERFLOW = ("THRESHOLD", _THRESHOLD, OVERFLOWS, 1)
_COLLECTORS = (
    OpenSpeedShop("hwcsamp", "RATE", "100", EVENTS, most=6, name="openspeedshop"),
    OpenSpeedShop("hwc", *_OVERFLOW),
    OpenSpeedShop("hwctime", *_OVERFLOW),
    OpenSpeedShop("pcsamp", "RATE", "100"),
    OpenSpeedShop("usertime", "RATE", "35"),
    OpenSpeedShop("mpi", views=("functions",)),
    OpenSpeedShop("mpit", views=("functions",)),
)
TOOLS: tuple[Tool, ...] = tuple(
    replace(tool, name=tool.name or f"openspeedshop:{tool.collector}") for tool in _COLLECTORS
)
