"""Any command with and without RDMA writes, as `nimc measure` requests it."""

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
from reframe_tests.factors import variable_fault
from reframe_tests.mixin import NimcMixin
from reframe_tests.timed import MARK
from reframe_tests.workload import Fom, FomError, Workload, number

#: Placeholders that the conductor would replace in a command (`records.treatment.Start`).
_RESERVED_PLACEHOLDER = re.compile(r"\{(targets|n_targets|slots|counters)\}")
#: Values of `which`.
_MATCH_CHOICES = ("last", "worst")


@rfm.simple_test
class command(rfm.RunOnlyRegressionTest, NimcMixin):
    """A program of the user, repeated within each run (`timed.py`)."""

    workload = "command"
    sourcesdir = None
    within_block = ("repeat",)
    lengthened_by = "repeat"

    #: The program and its arguments, quoted as for a shell; they are not run by a shell.
    command = variable(str, value="")

    #: Which match of the regular expression `figure` in a repetition's output is its result: the
    #: `last` or the `worst`. Without `figure`, the result is the repetition's time.
    which = variable(str, value="last")

    #: Unit of the figure.
    unit = variable(str, value="s")

    #: Number of times that the command is started within a run, one time after the other.
    repeat = variable(int, value=1)

    #: Number of target nodes, and number of ranks on each of them. With 0 ranks, one process is
    #: started without the MPI launcher.
    nodes = variable(int, value=1)
    ranks_per_node = variable(int, value=0)

    # ReFrame lists no check that is skipped after `init`.
    @run_after("setup")
    def require_command(self):
        """Skip the check, with a line, if there is no command to run."""
        self.skip_if(not self.command, "the variable 'command' names no program")

    @run_after("setup")
    def read_command(self):
        """Check the variables, and take the program and its arguments from the command."""
        try:
            program_and_arguments = shlex.split(self.command)
        except ValueError as error:
            raise ReframeError(f"{self.name}.command: {error}") from None
        try:
            if not program_and_arguments or _RESERVED_PLACEHOLDER.search(self.command):
                reserved = "without {targets}, {n_targets}, {slots} and {counters}"
                allowed = f"a program and its arguments, {reserved}"
                raise variable_fault(self, "command", f"allowed: {allowed}")
            if self.which not in _MATCH_CHOICES:
                raise variable_fault(self, "which", f"allowed: {', '.join(_MATCH_CHOICES)}")
            if not self.unit or self.unit.split() != [self.unit]:
                raise variable_fault(self, "unit", "allowed: a word without spaces")
            if self.ranks_per_node < 0:
                raise variable_fault(self, "ranks_per_node", "allowed: numbers from 0")
            if self.nodes < 1 or (self.nodes > 1 and not self.ranks_per_node):
                raise variable_fault(self, "nodes", "allowed: 1, or ranks_per_node from 1")
            if self.ranks_per_node and self.tool != tools.NONE:
                raise variable_fault(self, "tool", f"it counts one process; allowed: {tools.NONE}")
            re.compile(self.figure)
        except re.error as error:
            raise ReframeError(f"{self.name}.figure: {self.figure!r} found: {error}") from None
        except InputError as error:
            raise ReframeError(str(error)) from None
        self.executable, *self.executable_opts = program_and_arguments
        self.better = self.better or "lower"
        if self.figure:
            self.notes = [*self.notes, Note.FIGURE_MATCH(which=self.which, pattern=self.figure)]

    def lay_out(self):
        """Lay out the ranks, or one process on all cores; set no environment variables."""
        self.mpi = self.ranks_per_node > 0
        ranks = max(1, self.ranks_per_node)
        self.num_tasks_per_node = ranks
        self.num_tasks = self.nodes * ranks
        self.num_cpus_per_task = max(1, self.app_cores // ranks)

    def _launch_command(self, launcher):
        """Return a command that starts the launcher anew for each repetition."""
        options = [str(self.repeat), self.figure, self.which, self.better, self.unit]
        repeated_command = [*launcher, self.executable, *self.executable_opts]
        return python_main("reframe_tests.timed", *options, *repeated_command)

    def _completed_plan(self, decided_plan):
        """Return the plan with the user's unit and direction, and the command's working folder."""
        _, unit = units.si_factor(self.unit)
        return replace(
            super()._completed_plan(decided_plan),
            folder=decided_plan.folder,
            fom_unit=unit,
            fom_better=self.better,
        )


_REPETITION = re.compile(
    rf"^{MARK} (?P<ended>\d+)/(?P<planned>\d+) (?P<better>lower|higher) (?P<unit>\S+)"
    r" (?P<which>last|worst) (?P<matches>\d+) ?(?P<figure>.*)$",
    re.MULTILINE,
)


class _Command(Workload):
    """The workload of a command; the user chooses the figure's unit and better direction."""

    def read(self, text: str) -> Fom:
        """Return the figure in SI units, with a note if several numbers match."""
        fom = super().read(text)
        last = _last_repetition(text)
        factor, unit = units.si_factor(last["unit"])
        ambiguous = last["which"] == "last" and fom.extra["matches"] > 1
        notes = [Note.SEVERAL_FIGURES()] if ambiguous else []
        better: Better = "higher" if last["better"] == "higher" else "lower"
        return replace(fom, value=factor * fom.value, unit=unit, better=better, notes=notes)


def _last_repetition(text: str) -> re.Match[str]:
    """Return the match of the last repetition's line. Raises FomError if a line is missing."""
    lines = list(_REPETITION.finditer(text))
    if int(lines[-1]["planned"]) != len(lines):
        raise FomError(f"{len(lines)} of {lines[-1]['planned']} repetitions ended")
    return lines[-1]


def _mean_figure(text: str) -> float:
    """Return the mean of the figures of all repetitions."""
    return fmean(_figure(line["figure"]) for line in _REPETITION.finditer(text))


def _figure(text: str) -> float:
    try:
        return number(text)
    except ValueError:
        cause = f"the figure's pattern matches {text!r}, no number," if text else "nothing matches"
        raise FomError(f"{cause} in the output of a repetition") from None


WORKLOAD = _Command(
    title="a command",
    fom="time of the command, or the number that it prints",
    unit="s",
    better="lower",
    figure="mean",
    numbers={
        "repetitions": lambda text: float(_last_repetition(text)["planned"]),
        "matches": lambda text: float(_last_repetition(text)["matches"]),
        "mean": _mean_figure,
    },
    extra=("repetitions", "matches"),
    proof={"each repetition ended with exit status 0": _REPETITION.pattern},
)
