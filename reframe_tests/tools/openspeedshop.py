"""Open|SpeedShop: events and samples of each rank, summed over its linked objects.

Linked objects are the program and its shared libraries.

A run leaves the collectors' files. `ossutil` makes a database of them, and `openss -batch` makes
views of the database. Both exit with 0 even without data, so their output and files are checked.

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
from reframe_tests.tools.base import (
    FOLDER_PLACEHOLDER,
    RANK,
    CounterRow,
    State,
    Tool,
    ToolError,
    parsed_number,
)

#: Programs of Open|SpeedShop and PAPI that a run needs, offline and with CBTF.
_PROGRAMS = ("ossrun", "ossutil", "openss", "papi_command_line")
_CBTF_PROGRAMS = ("osscollect", "cbtfrun", "openss", "papi_command_line")
_CLOCK = "perf::TASK-CLOCK"
#: Events of `hwcsamp`, which takes at most six. PAPI counts at user level only. The collector of
#: Open|SpeedShop's last commit loses events after the first, and prints 0 for them. So the clock,
#: which cannot be 0, is the last event (`_require_clock`).
EVENTS = (
    "perf::PAGE-FAULTS",
    "perf::CONTEXT-SWITCHES:u=1:k=1",
    "PAPI_TOT_CYC",
    "PAPI_TOT_INS",
    "PAPI_L3_TCM",
    _CLOCK,
)
#: The six presets of figure 4 of Groves, Grant and Arnold (2016), and the clock. At most five of
#: the presets are counted beside the clock.
FIGURE_4 = (
    "PAPI_STL_ICY",
    "PAPI_L1_TCM",
    "PAPI_L2_TCM",
    "PAPI_L3_TCM",
    "PAPI_L2_TCH",
    "PAPI_L3_TCH",
    _CLOCK,
)
#: Least ratio of the counted clock to the sampled CPU time. It was 0.7 to 2 if no event was lost.
_MIN_CLOCK_SHARE = 0.1
#: Unit and factor of events that are not counts.
_UNITS = {_CLOCK: ("s", 1e-9)}
#: Name of the column of time in a view, in lower case.
_TIME_COLUMN = "exclusive cpu time in seconds."


def _script(name: str) -> str:
    template = Path(__file__).with_name(f"openspeedshop_{name}.sh.in")
    return template.read_text().replace("{RANK}", RANK)


#: Shell code that runs before the launcher starts.
_FRONT_SCRIPT = _script("front")
#: Shell code that runs in each rank.
_RANK_SCRIPT = _script("rank")
#: Messages of collectors that have lost counts. Open|SpeedShop exits with 0 all the same.
_LOST_COUNTS = re.compile(
    r"^.*(?:(?:OpenSS|CBTF)_PAPIerror|cannot be counted|PAPI_overflow\(\)).*$", re.M
)
#: Lines of `papi_command_line` on an event that it cannot count, and on an event that it can count.
_FAILED = re.compile(r"^Failed adding: (\S+)\s*\nbecause: (.*)$", re.M)
_ADDED = re.compile(r"^Successfully added: (\S+)", re.M)


@dataclass(frozen=True, kw_only=True)
class OpenSpeedShop(Tool):
    """A tool (`base.Tool`) that counts with one collector of Open|SpeedShop."""

    name: str
    collector: str
    #: The collector's `RATE` or `THRESHOLD`, and its value.
    setting: str
    setting_value: str
    #: Events to try, in order of preference.
    events: tuple[str, ...] = ()
    #: Largest number of events that the collector counts in one run.
    most_events: int = 0
    #: Name of an event's column in the view; `{}` stands for the event.
    column: str = "{}"

    def wrap(self, launcher: Sequence[str], application: Sequence[str]) -> list[str]:
        """See `Tool.wrap`. The events are tried once, before the launcher starts."""
        variable = self._variable("EVENTS" if self.most_events > 1 else "EVENT")
        words = [variable, str(self.most_events), " ".join(self.events)]
        front = ["sh", "-c", _FRONT_SCRIPT, self.name, FOLDER_PLACEHOLDER, *words]
        return [
            *front,
            *launcher,
            "sh",
            "-c",
            _RANK_SCRIPT,
            self.name,
            FOLDER_PLACEHOLDER,
            self.collector,
            *application,
        ]

    def environment(self) -> dict[str, str]:
        """See `Tool.environment`. The variables set the collector's rate or threshold."""
        variable = self._variable(self.setting)
        return {f"OPENSS_{variable}": self.setting_value, f"CBTF_{variable}": self.setting_value}

    def _variable(self, name: str) -> str:
        """Return the name of the collector's variable without the prefix of the build."""
        return f"{self.collector.upper()}_{name}"

    def parse(self, folder: Path, ranks: int) -> list[CounterRow]:
        """See `Tool.parse`. First makes the views of the run's files, on this node."""
        for path in base.files_of(folder, ranks, "rank", ".err").values():
            if lost := _LOST_COUNTS.search(path.read_text(errors="replace")):
                raise ToolError(f"{path}: {lost[0].strip()}")
        write_views(folder, ranks, self.collector, self.environment())
        return [row for rank in range(ranks) for row in self._rows(folder, rank)]

    def why_missing(self) -> str | None:
        """Return why Open|SpeedShop cannot count here, or None."""
        for program in _CBTF_PROGRAMS if _has_cbtf() else _PROGRAMS:
            if shutil.which(program) is None:
                return f"{program} is not on PATH: docs/tools.md says which build is needed"
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            words = [word.replace(FOLDER_PLACEHOLDER, scratch) for word in self.wrap([], ["true"])]
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
        if _TIME_COLUMN in sums:
            rows.append(CounterRow(rank=rank, event="CPU time", value=sums[_TIME_COLUMN], unit="s"))
        return rows

    def _counts(
        self, folder: Path, path: Path, sums: Mapping[str, float], rank: int
    ) -> list[CounterRow]:
        """Return the rows of the events. Events that the machine refused have no value."""
        tried_events_file = folder / "events.txt"
        if not tried_events_file.is_file():
            raise ToolError(f"{tried_events_file}: no such file: the events were not tried")
        tried_events_text = tried_events_file.read_text(errors="replace")
        rows = []
        countable = _ADDED.findall(tried_events_text)
        counted = _counted_events(countable, self.most_events)
        for event in counted:
            column = self.column.format(event).lower()
            if column not in sums:
                raise ToolError(f"{path}: no column of {event}; found: {', '.join(sums)}")
            unit, factor = _UNITS.get(event, ("count", 1.0))
            rows.append(CounterRow(rank=rank, event=event, value=sums[column] * factor, unit=unit))
        if self.most_events == 1:  # the events are alternatives; the others need no rows
            return rows
        _require_clock(path, sums, rows)
        rows += [
            CounterRow(rank=rank, event=event, value=None, unit="count", state="not counted")
            for event in countable
            if event not in counted
        ]
        for event, reason in _FAILED.findall(tried_events_text):
            # An event that exists may have no counter left beside the others.
            exists = reason.startswith("Event exists")
            state: State = "not counted" if exists else "not supported"
            rows.append(CounterRow(rank=rank, event=event, value=None, unit="count", state=state))
        return rows


def _counted_events(countable: Sequence[str], most_events: int) -> list[str]:
    """Return the events that the collector counts; if there are several, the clock is the last."""
    if most_events == 1:
        return list(countable[:1])
    others = [event for event in countable if event != _CLOCK]
    clock = [event for event in countable if event == _CLOCK]
    return [*others[: most_events - 1], *clock]


def _has_cbtf() -> bool:
    return shutil.which("osscollect") is not None


def _require_clock(path: Path, sums: Mapping[str, float], rows: Sequence[CounterRow]) -> None:
    """Raise ToolError if the collector has lost the last event, and so perhaps others."""
    clock_s = sum(row.value or 0.0 for row in rows if row.event == _CLOCK)
    sampled_s = sums.get(_TIME_COLUMN, 0.0)
    if clock_s < _MIN_CLOCK_SHARE * sampled_s or not clock_s:
        raise ToolError(
            f"{path}: {_CLOCK}, the last event, has {clock_s:.3f} s of {sampled_s:.3f} s of"
            " CPU time: this build of Open|SpeedShop loses events (docs/tools.md)"
        )


TOOLS: tuple[Tool, ...] = (
    OpenSpeedShop(
        name="openspeedshop",
        collector="hwcsamp",
        setting="RATE",
        setting_value="100",
        events=EVENTS,
        most_events=6,
    ),
    OpenSpeedShop(
        name="openspeedshop:figure4",
        collector="hwcsamp",
        setting="RATE",
        setting_value="100",
        events=FIGURE_4,
        most_events=6,
    ),
    OpenSpeedShop(
        name="openspeedshop:hwc",
        collector="hwc",
        setting="THRESHOLD",
        setting_value="10000000",
        events=("PAPI_TOT_CYC", _CLOCK),
        most_events=1,
        column="Exclusive {} Counts",
    ),
    OpenSpeedShop(
        name="openspeedshop:pcsamp", collector="pcsamp", setting="RATE", setting_value="100"
    ),
)


# Views of each rank.


#: Folder of the collectors' files, within the run's folder.
RAW = "raw"
#: A program that does nothing: `osscollect` must start one, though it only makes a database here.
_NO_PROGRAM = "/bin/true"
#: Shell code that makes the database. It sets the collector's settings first, since views need
#: them. Arguments: collector, `_NO_PROGRAM`.
_COLLECT = (
    "[ ! -e settings ] || . ./settings; export OPENSS_DEFER_VIEW=1"
    f" OPENSS_RAWDATA_DIR=$PWD/{RAW} OPENSS_DB_DIR=$PWD;"
    ' exec osscollect --offline --collector "$1" --cbtfrunpath "$2" --program "$2"'
)
_DATABASE_COPY, _PROCESSES_FILE, _COMMANDS_FILE = "copy.openss", "processes.txt", "commands.txt"
#: A process and its rank, in the output of `expstatus`. Views are requested by process, since views
#: by rank include processes without a rank, such as a script that starts the program.
_PROCESS = re.compile(r"^\s+(-h \S+ -p \d+)\b.*? -r (\d+)\b", re.MULTILINE)
_MAX_OPENSS_CALLS = 5
_PROGRAM_TIMEOUT_S = 600


def view_path(folder: Path, rank: int) -> Path:
    """Return the path of a rank's view of linked objects."""
    return folder / f"rank-{rank}.csv"


def _database(folder: Path, collector: str, settings: Mapping[str, str]) -> Path:
    """Make the database of the collectors' files; return its path. Raises ToolError."""
    if _has_cbtf():
        program = "osscollect"
        words = ["sh", "-c", _COLLECT, program, collector, _NO_PROGRAM]
        database = folder / f"{Path(_NO_PROGRAM).name}-{collector}-0.openss"
    else:
        program = "ossutil"
        words = [program, RAW]
        database = folder / "X.0.openss"
    database.unlink(missing_ok=True)  # an interrupted attempt may have left it
    output = _run(folder, program, words, settings=settings)
    if not database.is_file():
        raise ToolError(f"{database}: not made by {program}: {first_line(output)}")
    return database


def write_views(folder: Path, ranks: int, collector: str, settings: Mapping[str, str]) -> None:
    """Write the view of each rank, unless all exist. Raises ToolError."""
    if all(view_path(folder, rank).is_file() for rank in range(ranks)):
        return
    if not any((folder / RAW).glob("*")):
        raise ToolError(f"{folder / RAW}: no data: was the application started by ossrun?")
    database = _database(folder, collector, settings)
    # openss may change the database that it reads.
    shutil.copyfile(database, folder / _DATABASE_COPY)
    processes = folder / _PROCESSES_FILE
    _run_openss(folder, {processes: "expstatus"}, "Experiment definition")
    text = processes.read_text(errors="replace")
    process_by_rank = {int(rank): process for process, rank in _PROCESS.findall(text)}
    missing_ranks = [rank for rank in range(ranks) if rank not in process_by_rank]
    # A program without MPI has one process, without a rank.
    if missing_ranks and (process_by_rank or ranks > 1):
        count = f"found {len(process_by_rank)} of {ranks}"
        raise ToolError(f"{database}: no data of rank {missing_ranks[0]}; {count}")
    commands = {
        view_path(folder, rank): f"expview {process_by_rank.get(rank, '')} -v linkedobjects -F csv"
        for rank in range(ranks)
    }
    _run_openss(folder, commands, ",")
    (folder / _DATABASE_COPY).unlink()


def _run_openss(folder: Path, commands: Mapping[Path, str], expected: str) -> None:
    """Write what each command of openss prints to its file, until each file contains `expected`.

    openss sometimes loses a command, since it reads a line after it has freed the line. Lost
    commands are repeated. Raises ToolError with the content of a file that stays incomplete.
    """

    def incomplete_files() -> list[Path]:
        return [path for path in commands if expected not in _content(path)]

    output = ""
    for _ in range(_MAX_OPENSS_CALLS):
        incomplete = incomplete_files()
        if not incomplete:
            return
        # Commands are in a file, since openss does not read a pipe to its end.
        lines = [f"{commands[path]} > {path.name}" for path in incomplete]
        text = "\n".join([f"exprestore -f {_DATABASE_COPY}", *lines, "exit", ""])
        replace_text(folder / _COMMANDS_FILE, text)
        with (folder / _COMMANDS_FILE).open() as file:
            output = _run(folder, "openss", ["openss", "-batch"], file)
    if incomplete := incomplete_files():
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
    """Return what a program printed, and write it to `NAME.txt`. Raises ToolError if it fails."""
    # The folder of plugins and Python modules of `openss`, below its own prefix.
    program = shutil.which("openss")
    prefix = Path(program).resolve().parent.parent if program else Path()
    plugins = str(min(prefix.glob("lib*/openspeedshop"), default=prefix))
    environment = {**os.environ, "OPENSS_PLUGIN_PATH": plugins, "PYTHONPATH": plugins}
    environment |= settings or {}
    answer = ask(words, environment, timeout_s=_PROGRAM_TIMEOUT_S, stdin=stdin, folder=folder)
    if answer.status is None:
        raise ToolError(f"{folder}: {name} does not run: {answer.reason}")
    replace_text(folder / f"{name}.txt", answer.text)
    if not answer.ok:
        reason = f"exit status {answer.status}: {first_line(answer.text)}"
        raise ToolError(f"{folder}: {name}: {reason}")
    return answer.text


#: Name of the last row of some views, which has the sums.
_SUMMARY = "Report Summary"


def read_view(path: Path) -> dict[str, float]:
    """Return column -> its sum over the linked objects of a rank.

    Names of columns are in lower case, since some views print them in lower case. The CSV has no
    quotes, but the last column, a name, may contain commas. An empty cell means 0. Raises
    ToolError; without a table, the message quotes the first line.
    """
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    if not lines:
        raise ToolError(f"{path}: empty: openss has no data of this rank")
    *columns, last = lines[0].lower().split(",")
    if last != "linkedobject" or not columns or len(lines) < 2:
        raise ToolError(f"{path}: no table: {lines[0].strip()}")
    sums = dict.fromkeys(columns, 0.0)
    for line in lines[1:]:
        *cells, name = line.split(",", len(columns))
        try:
            values = [parsed_number(cell or 0) for cell in cells]
        except ValueError:
            values = []
        if len(values) != len(columns):
            raise ToolError(f"{path}: not a row of {len(columns) + 1} columns: {line!r}")
        if name != _SUMMARY:
            for column, value in zip(columns, values, strict=True):
                sums[column] += value
    return sums
