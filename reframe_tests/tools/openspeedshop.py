"""Open|SpeedShop: events and samples of each rank, summed over its linked objects.

A run leaves the collectors' files; `ossutil` makes a database of them, and `openss -batch` views of
that. Both exit with 0 when there is nothing to see, so their output and files are checked.

A build for CBTF, such as Spack's, has `osscollect` and no `ossutil`: `cbtfrun` starts the ranks,
and `osscollect` makes the database. Its `ossrun` has no collectors.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from records.files import replace_text
from records.programs import ask, first_line, last_line
from reframe_tests.tools import base
from reframe_tests.tools.base import FOLDER, RANK, CounterRow, State, Tool, ToolError, figure

#: Programs of Open|SpeedShop and PAPI that a run needs, offline and with CBTF.
_PROGRAMS = ("ossrun", "ossutil", "openss", "papi_command_line")
_CBTF_PROGRAMS = ("osscollect", "cbtfrun", "openss", "papi_command_line")
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
#: The six presets of figure 4 of Groves, Grant and Arnold (2016).
FIGURE_4 = (
    "PAPI_STL_ICY",
    "PAPI_L1_TCM",
    "PAPI_L2_TCM",
    "PAPI_L3_TCM",
    "PAPI_L2_TCH",
    "PAPI_L3_TCH",
    _CLOCK,
)
#: Least share of the sampled CPU time that the clock shows if it was counted (0.7 to 2 were seen).
_CLOCK_SHARE = 0.1
#: Unit and factor of events that are not counts.
_UNITS = {_CLOCK: ("s", 1e-9)}
#: Column of time in a view, in lower case.
_SECONDS = "exclusive cpu time in seconds."

#: Shell that runs before the launcher starts, and in each rank.
_FRONT, _RANK = (
    Path(__file__).with_name(f"openspeedshop_{part}.sh.in").read_text().replace("{RANK}", RANK)
    for part in ("front", "rank")
)
#: Messages of collectors that have lost counts; Open|SpeedShop exits with 0 nevertheless.
_REFUSALS = re.compile(
    r"^.*(?:(?:OpenSS|CBTF)_PAPIerror|cannot be counted|PAPI_overflow\(\)).*$", re.M
)
#: Lines of `papi_command_line` on an event that it cannot count, and on one that it can.
_FAILED = re.compile(r"^Failed adding: (\S+)\s*\nbecause: (.*)$", re.M)
_ADDED = re.compile(r"^Successfully added: (\S+)", re.M)


@dataclass(frozen=True, kw_only=True)
class OpenSpeedShop(Tool):
    """See `base.Tool`; a collector of Open|SpeedShop, and its settings."""

    name: str
    collector: str
    #: Its rate or threshold.
    setting: str
    value: str
    #: Candidates of its events, and how many it takes.
    events: tuple[str, ...] = ()
    most_events: int = 0
    #: The column of an event in its view.
    column: str = "{}"

    def wrap(self, launcher: Sequence[str], application: Sequence[str]) -> list[str]:
        """See the interface. Events are tried once, before the launcher."""
        variable = self._variable("EVENTS" if self.most_events > 1 else "EVENT")
        words = [variable, str(self.most_events), " ".join(self.events)]
        front = ["sh", "-c", _FRONT, self.name, FOLDER, *words]
        return [
            *front,
            *launcher,
            "sh",
            "-c",
            _RANK,
            self.name,
            FOLDER,
            self.collector,
            *application,
        ]

    def environment(self) -> dict[str, str]:
        """Rates and thresholds."""
        variable = self._variable(self.setting)
        return {f"OPENSS_{variable}": self.value, f"CBTF_{variable}": self.value}

    def _variable(self, name: str) -> str:
        """Return what sets this of the collector, after the prefix of the build."""
        return f"{self.collector.upper()}_{name}"

    def parse(self, folder: Path, ranks: int) -> list[CounterRow]:
        """See the interface. Gathers the files of the run first, on the node where this runs."""
        for path in base.files_of(folder, ranks, "rank", ".err").values():
            if refusal := _REFUSALS.search(path.read_text(errors="replace")):
                raise ToolError(f"{path}: {refusal[0].strip()}")
        gather(folder, ranks, self.collector, self.environment())
        return [row for rank in range(ranks) for row in self._rows(folder, rank)]

    def missing(self) -> str | None:
        """See the interface."""
        for program in _CBTF_PROGRAMS if _has_cbtf() else _PROGRAMS:
            if shutil.which(program) is None:
                return f"{program} is not on PATH: docs/tools.md says which build is needed"
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            words = [word.replace(FOLDER, scratch) for word in self.wrap([], ["true"])]
            answer = ask(words, {**os.environ, "OMP_NUM_THREADS": "1"}, folder=folder)
            if not answer.ok:
                return f"Open|SpeedShop does not run: {first_line(answer.stderr)}"
            if not any((folder / RAW).iterdir()):
                return "Open|SpeedShop leaves no data: its collectors are not preloaded"
        return None

    def _rows(self, folder: Path, rank: int) -> list[CounterRow]:
        path = view_path(folder, rank)
        sums = read_view(path)
        rows = self._counts(folder, path, sums, rank) if self.events else []
        if _SECONDS in sums:
            rows.append(CounterRow(rank=rank, event="CPU time", value=sums[_SECONDS], unit="s"))
        return rows

    def _counts(
        self, folder: Path, path: Path, sums: Mapping[str, float], rank: int
    ) -> list[CounterRow]:
        """Rows of the events; without a value for those that the machine refused."""
        tried = folder / "events.txt"
        if not tried.is_file():
            raise ToolError(f"{tried}: no such file: the events were not tried")
        text = tried.read_text(errors="replace")
        rows = []
        added = _ADDED.findall(text)
        taken = _given_events(added, self.most_events)
        for event in taken:
            column = self.column.format(event).lower()
            if column not in sums:
                raise ToolError(f"{path}: no column of {event}; found: {', '.join(sums)}")
            unit, factor = _UNITS.get(event, ("count", 1.0))
            rows.append(CounterRow(rank=rank, event=event, value=sums[column] * factor, unit=unit))
        if self.most_events == 1:  # the first that can be counted, whatever was tried before it
            return rows
        _require_clock(path, sums, rows)
        rows += [
            CounterRow(rank=rank, event=event, value=None, unit="count", state="not counted")
            for event in added
            if event not in taken
        ]
        for event, reason in _FAILED.findall(text):
            # An event that exists may lack a counter, because of the others.
            exists = reason.startswith("Event exists")
            state: State = "not counted" if exists else "not supported"
            rows.append(CounterRow(rank=rank, event=event, value=None, unit="count", state=state))
        return rows


def _given_events(added: Sequence[str], most_events: int) -> list[str]:
    """Of the events that can be counted, those that the collector is given; the clock is last."""
    if most_events == 1:
        return list(added[:1])
    others = [event for event in added if event != _CLOCK]
    return [*others[: most_events - 1], *(event for event in added if event == _CLOCK)]


def _has_cbtf() -> bool:
    return shutil.which("osscollect") is not None


def _require_clock(path: Path, sums: Mapping[str, float], rows: Sequence[CounterRow]) -> None:
    """Raise ToolError if the collector has lost the last event, and so maybe all others."""
    clock_s = next((row.value for row in rows if row.event == _CLOCK), None) or 0.0
    sampled_s = sums.get(_SECONDS, 0.0)
    if clock_s < _CLOCK_SHARE * sampled_s or not clock_s:
        raise ToolError(
            f"{path}: {_CLOCK}, the last event, has {clock_s:.3f} s of {sampled_s:.3f} s of"
            " CPU time: this build of Open|SpeedShop loses events (docs/tools.md)"
        )


TOOLS: tuple[Tool, ...] = (
    OpenSpeedShop(
        name="openspeedshop",
        collector="hwcsamp",
        setting="RATE",
        value="100",
        events=EVENTS,
        most_events=6,
    ),
    OpenSpeedShop(
        name="openspeedshop:figure4",
        collector="hwcsamp",
        setting="RATE",
        value="100",
        events=FIGURE_4,
        most_events=6,
    ),
    OpenSpeedShop(
        name="openspeedshop:hwc",
        collector="hwc",
        setting="THRESHOLD",
        value="10000000",
        events=("PAPI_TOT_CYC", _CLOCK),
        most_events=1,
        column="Exclusive {} Counts",
    ),
    OpenSpeedShop(name="openspeedshop:pcsamp", collector="pcsamp", setting="RATE", value="100"),
)


# Makes the view of each rank.


#: Folder of the collectors' files, within that of the run.
RAW = "raw"
#: The program that `osscollect` starts when it only gathers, and what it starts that by.
_NOTHING = "/bin/true"
#: Gathers with the collector's settings, which the view needs. Arguments: collector, `_NOTHING`.
_COLLECT = (
    "[ ! -e settings ] || . ./settings; export OPENSS_DEFER_VIEW=1"
    f" OPENSS_RAWDATA_DIR=$PWD/{RAW} OPENSS_DB_DIR=$PWD;"
    ' exec osscollect --offline --collector "$1" --cbtfrunpath "$2" --program "$2"'
)
_COPY, _PROCESSES, _COMMANDS = "copy.openss", "processes.txt", "commands.txt"
#: A process and its rank, in the output of `expstatus`. Views by rank would include the processes
#: that have none, such as a script that starts the program.
_PROCESS = re.compile(r"^\s+(-h \S+ -p \d+)\b.*? -r (\d+)\b", re.MULTILINE)
_ATTEMPTS = 5
_GATHER_TIMEOUT_S = 600


def view_path(folder: Path, rank: int) -> Path:
    """File of a rank's linked objects."""
    return folder / f"rank-{rank}.csv"


def _database(folder: Path, collector: str, settings: Mapping[str, str]) -> Path:
    """Make the database of the collectors' files. Raises ToolError."""
    words, name = ["ossutil", RAW], "X.0.openss"
    if _has_cbtf():
        words = ["sh", "-c", _COLLECT, "osscollect", collector, _NOTHING]
        name = f"{Path(_NOTHING).name}-{collector}-0.openss"
    program = "osscollect" if _has_cbtf() else "ossutil"
    database = folder / name
    database.unlink(missing_ok=True)  # of an attempt that was interrupted
    output = _run(folder, program, words, settings=settings)
    if not database.is_file():
        raise ToolError(f"{database}: not made by {program}: {first_line(output)}")
    return database


def gather(folder: Path, ranks: int, collector: str, settings: Mapping[str, str]) -> None:
    """Write the view of each rank, unless all are there. Raises ToolError."""
    if all(view_path(folder, rank).is_file() for rank in range(ranks)):
        return
    if not any((folder / RAW).glob("*")):
        raise ToolError(f"{folder / RAW}: no data: was the application started by ossrun?")
    database = _database(folder, collector, settings)
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
        view_path(folder, rank): f"expview {processes_of.get(rank, '')} -v linkedobjects -F csv"
        for rank in range(ranks)
    }
    _ask(folder, commands, ",")
    (folder / _COPY).unlink()


def _ask(folder: Path, commands: Mapping[Path, str], complete: str) -> None:
    """Write what each command prints to its file, which must contain `complete`.

    Raises ToolError with what is there instead. openss now and then loses a command (it reads the
    line after it freed it), so it is asked again.
    """
    output = ""
    for _ in range(_ATTEMPTS):
        incomplete = [path for path in commands if complete not in _content(path)]
        if not incomplete:
            return
        # Commands are read from a file, since a pipe is not read whole.
        words = [f"{commands[path]} > {path.name}" for path in incomplete]
        text = "\n".join([f"exprestore -f {_COPY}", *words, "exit", ""])
        replace_text(folder / _COMMANDS, text)
        with (folder / _COMMANDS).open() as file:
            output = _run(folder, "openss", ["openss", "-batch"], file)
    if incomplete := [path for path in commands if complete not in _content(path)]:
        raise ToolError(f"{incomplete[0]}: {last_line(_content(incomplete[0]) or output)}")


def _content(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""


def _run(
    folder: Path,
    name: str,
    words: Sequence[str],
    stdin: IO[str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> str:
    """Return what a program printed, also in `NAME.txt`. Raises ToolError if it does not run."""
    # Where `openss` finds its plugins and its Python, derived from its own place.
    program = shutil.which("openss")
    prefix = Path(program).resolve().parent.parent if program else Path()
    plugins = str(next(iter(sorted(prefix.glob("lib*/openspeedshop"))), prefix))
    environment = {**os.environ, "OPENSS_PLUGIN_PATH": plugins, "PYTHONPATH": plugins}
    environment |= settings or {}
    answer = ask(words, environment, timeout_s=_GATHER_TIMEOUT_S, stdin=stdin, folder=folder)
    if answer.status is None:
        raise ToolError(f"{folder}: {name} does not run: {answer.reason}")
    replace_text(folder / f"{name}.txt", answer.text)
    if not answer.ok:
        reason = f"exit status {answer.status}: {first_line(answer.text)}"
        raise ToolError(f"{folder}: {name}: {reason}")
    return answer.text


#: Name of the last line of some views, which has the sums.
_SUMMARY = "Report Summary"


def read_view(path: Path) -> dict[str, float]:
    """Column, in lower case as some views have it -> its sum over the objects of a rank.

    The CSV has no quotes: the last column, a name, may contain commas. An empty cell means 0.
    Raises ToolError, with the file's own line if it has no table.
    """
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    if not lines:
        raise ToolError(f"{path}: empty: openss has no data of this rank")
    *columns, last = lines[0].lower().split(",")
    if last != "linkedobject" or not columns or len(lines) < 2:
        raise ToolError(f"{path}: no table: {lines[0].strip()}")
    sums = dict.fromkeys(columns, 0.0)
    for line in lines[1:]:
        *numbers, name = line.split(",", len(columns))
        try:
            values = [figure(number or 0) for number in numbers]
        except ValueError:
            values = []
        if len(values) != len(columns):
            raise ToolError(f"{path}: not a row of {len(columns) + 1} columns: {line!r}")
        if name != _SUMMARY:
            for column, value in zip(columns, values, strict=True):
                sums[column] += value
    return sums
