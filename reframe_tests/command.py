"""Any command with and without writers, as `nimc measure` requests it."""

import re
import shlex
from dataclasses import replace
from statistics import fmean

import reframe as rfm
from reframe.core.builtins import run_after, variable
from reframe.core.exceptions import ReframeError

from records import units
from records.checkout import python_main
from records.errors import InputError
from records.notes import Note
from records.sample import Better
from reframe_tests import tools
from reframe_tests.factors import fault
from reframe_tests.mixin import NimcMixin
from reframe_tests.timed import MARK
from reframe_tests.workload import Fom, FomError, Workload, number

#: Words of a command that the conductor would replace (`records.treatment.Start`).
_RESERVED = re.compile(r"\{(targets|n_targets|slots|counters)\}")
#: Which of several matches is the figure.
CHOICES = ("last", "worst")


@rfm.simple_test
class command(rfm.RunOnlyRegressionTest, NimcMixin):
    """A program of the user's, repeated within each run (`timed.py`)."""

    workload = "command"
    sourcesdir = None
    within_block = ("repeat",)
    lengthened_by = "repeat"

    #: The program and its arguments, as a shell's words; no shell reads them.
    command = variable(str, value="")

    #: Which of the numbers that `figure`, a regular expression, finds in a repetition's output is
    #: its figure: the `last`, or the `worst`. Without `figure`, it is the seconds it takes.
    which = variable(str, value="last")

    #: Unit of these numbers.
    unit = variable(str, value="s")

    #: How often the command is started within a run, one after the other.
    repeat = variable(int, value=1)

    #: Target nodes, and ranks of each that the MPI launcher starts; 0: one process without it.
    nodes = variable(int, value=1)
    ranks_per_node = variable(int, value=0)

    @run_after("init")
    def require_command(self):
        """Without one there is nothing to run."""
        self.skip_if(not self.command, "the variable 'command' names no program")

    @run_after("setup")
    def read_words(self):
        """Take the program and its arguments, and say how the figure is read."""
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise ReframeError(f"{self.name}.command: {error}") from None
        try:
            if not words or _RESERVED.search(self.command):
                reserved = "without {targets}, {n_targets}, {slots} and {counters}"
                raise fault(self, "command", f"allowed: a program and its arguments, {reserved}")
            if self.which not in CHOICES:
                raise fault(self, "which", f"allowed: {', '.join(CHOICES)}")
            if not self.unit or self.unit.split() != [self.unit]:
                raise fault(self, "unit", "allowed: a word without spaces")
            if self.nodes > 1 and not self.ranks_per_node:
                raise fault(self, "nodes", "allowed: 1, or ranks_per_node from 1")
            if self.ranks_per_node and self.tool != tools.NONE:
                raise fault(self, "tool", f"it counts one process; allowed: {tools.NONE}")
            re.compile(self.figure)
        except re.error as error:
            raise ReframeError(f"{self.name}.figure: {self.figure!r} found: {error}") from None
        except InputError as error:
            raise ReframeError(str(error)) from None
        self.executable, *self.executable_opts = words
        self.better = self.better or "lower"
        if self.figure:
            note = Note.FIGURE_MATCH(which=self.which, pattern=self.figure)
            self.notes = [*self.notes, note]

    def lay_out(self):
        """One process for all cores, or ranks; the environment stays the user's."""
        self.mpi = self.ranks_per_node > 0
        ranks = max(1, self.ranks_per_node)
        self.num_tasks_per_node, self.num_tasks = ranks, self.nodes * ranks
        self.num_cpus_per_task = max(1, self.app_cores // ranks)

    def _command(self, launcher):
        """The launcher, too, is started anew for each repetition."""
        options = str(self.repeat), self.figure, self.which, self.better, self.unit
        words = *launcher, self.executable, *self.executable_opts
        return python_main("reframe_tests.timed", *options, *words)

    def _complete(self, decided):
        """The plan with the unit that the user chose, and where the command is started."""
        _, unit = units.si_factor(self.unit)
        chosen = {"folder": decided.folder, "fom_unit": unit, "fom_better": self.better}
        return replace(super()._complete(decided), **chosen)


_LINE = re.compile(
    rf"^{MARK} (?P<ended>\d+)/(?P<planned>\d+) (?P<better>lower|higher) (?P<unit>\S+)"
    r" (?P<which>last|worst) (?P<matches>\d+) ?(?P<figure>.*)$",
    re.MULTILINE,
)


class _Command(Workload):
    """Unit and direction are those that the command's user named."""

    def read(self, text: str) -> Fom:
        """See `Workload`."""
        fom = super().read(text)
        last = _last(text)
        factor, unit = units.si_factor(last["unit"])
        unclear = last["which"] == "last" and fom.extra["matches"] > 1
        notes = [Note.SEVERAL_FIGURES()] if unclear else []
        better: Better = "higher" if last["better"] == "higher" else "lower"
        return replace(fom, value=factor * fom.value, unit=unit, better=better, notes=notes)


def _last(text: str) -> re.Match[str]:
    """The line of the last repetition; raises FomError if the command did not end as often."""
    lines = list(_LINE.finditer(text))
    if int(lines[-1]["planned"]) != len(lines):
        raise FomError(f"{len(lines)} of {lines[-1]['planned']} repetitions ended")
    return lines[-1]


def _mean(text: str) -> float:
    """Of all repetitions."""
    return fmean(_figure(line["figure"]) for line in _LINE.finditer(text))


def _figure(text: str) -> float:
    try:
        return number(text)
    except ValueError:
        cause = f"the figure's pattern matches {text!r}, no number" if text else "nothing matches"
        raise FomError(f"{cause} in the output of a repetition") from None


WORKLOAD = _Command(
    title="a command",
    fom="time of the command, or the number that it prints",
    unit="s",
    better="lower",
    figure="mean",
    numbers={
        "repetitions": lambda text: float(_last(text)["planned"]),
        "matches": lambda text: float(_last(text)["matches"]),
        "mean": _mean,
    },
    extra=("repetitions", "matches"),
    proof={"each repetition ended with exit status 0": _LINE.pattern},
)
