"""Runs other programs that end after a short time.

By default, a program does not start in the current folder, since it may look there for settings and
libraries, and another user may have put some there. This module uses only the standard library,
since compute nodes use it too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from records.errors import MachineError
from records.last_words import is_warning

#: Default time limit of a program, seconds.
TIMEOUT_S = 60.0
#: Root folder of the file system, where programs start by default. Only root can add files to it.
FILE_SYSTEM_ROOT = Path("/")
_MISSING_TEXT = "not found on this host"
#: File name of MPICH's library. MPIs that can replace MPICH use this name for their library, too.
_MPICH = "libmpi.so.12"


@dataclass(frozen=True)
class ProgramAnswer:
    """The exit status of a program, and its output."""

    name: str
    #: Exit status; None if the program did not start, or did not end in time.
    status: int | None
    stdout: str
    #: Standard error; if there is no status, the reason for that.
    stderr: str

    @property
    def ok(self) -> bool:
        """Return whether it succeeded."""
        return self.status == 0

    @property
    def is_missing(self) -> bool:
        """Return whether there is no such program."""
        return self.status is None and self.stderr == _MISSING_TEXT

    @property
    def text(self) -> str:
        """Standard output, followed by standard error."""
        return self.stdout + self.stderr

    @property
    def last_line(self) -> str:
        """Its last line that is not a warning, which is usually the error."""
        return last_line(self.text)

    @property
    def first_line(self) -> str:
        """Its first line that is not a warning, which is the error if an explanation follows."""
        return first_line(f"{self.stderr}\n{self.stdout}")

    @property
    def reason(self) -> str:
        """Why it failed, in one line: exit status and last line, or why it has no status."""
        if self.status is None:
            return self.stderr
        return f"exit status {self.status}: {self.last_line}"

    def require_end(self) -> ProgramAnswer:
        """Return this answer, whatever its status. Raises MachineError if there is no status."""
        if self.status is None:
            raise MachineError(f"{self.name}: {self.reason}")
        return self

    def required_output(self) -> str:
        """Its standard output. Raises MachineError if it failed."""
        if not self.ok:
            raise MachineError(f"{self.name}: {self.reason}")
        return self.stdout


def ask(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
    stdin: str | IO[str] | None = None,
    folder: Path = FILE_SYSTEM_ROOT,
    errors: str = "replace",
) -> ProgramAnswer:
    """Run a command. The answer also shows if the program is missing or too slow.

    `environment`: the whole environment; None: this process's. `stdin`: text, or an open file.
    `errors`: treatment of bytes that are not UTF-8, as for `bytes.decode`. `folder`: where the
    program starts; a relative path of the program is still relative to the current folder.
    """
    program, *words = command
    name = Path(program).name
    try:
        completed = subprocess.run(
            [os.path.abspath(program) if "/" in program else program, *words],
            check=False,
            input=stdin if isinstance(stdin, str) else None,
            stdin=None if isinstance(stdin, str) else stdin or subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors=errors,
            timeout=timeout_s,
            env=environment,
            cwd=folder,
        )
    except FileNotFoundError:
        return ProgramAnswer(name, None, "", _MISSING_TEXT)
    except OSError as error:
        return ProgramAnswer(name, None, "", error.strerror or str(error))
    except subprocess.TimeoutExpired:
        return ProgramAnswer(name, None, "", f"has not answered for {timeout_s:g} s")
    return ProgramAnswer(name, completed.returncode, completed.stdout, completed.stderr)


def first_line(output: str) -> str:
    """The first line that is not empty, without colours; a warning only if all lines are warnings.

    If the line ends with a colon, the next one follows it.
    """
    first, *later = _lines(output) or ["no output"]
    return f"{first} {later[0]}" if first.endswith(":") and later else first


def last_line(output: str) -> str:
    """The last line that is not empty, without colours; a warning only if all lines warn."""
    return (_lines(output) or ["no output"])[-1]


def _lines(output: str) -> list[str]:
    """The lines that are not empty, without colours; without warnings, unless all lines are."""
    uncoloured = re.sub(r"\x1b\[[0-9;]*m", "", output)
    lines = [line.strip() for line in uncoloured.splitlines() if line.strip()]
    return [line for line in lines if not is_warning(line)] or lines


def find_program(name: str) -> str | None:
    """Path of a program beside this Python, where wheels install programs, or else on PATH."""
    return shutil.which(str(Path(sys.executable).parent / name)) or shutil.which(name)


def mpi_of_wheels(environment: Mapping[str, str]) -> dict[str, str]:
    """The variable with which a program of the wheels loads the MPI of the wheels.

    Such a program searches LD_LIBRARY_PATH first, and modules put the libraries of another MPI
    there. The libraries of Intel MPI and of MVAPICH have the same name as MPICH's. So the wheels'
    folder is put first. Empty if `environment` names no other MPI.
    """
    folders = list(filter(None, environment.get("LD_LIBRARY_PATH", "").split(":")))
    if not any(Path(folder, _MPICH).exists() for folder in folders):
        return {}
    return {"LD_LIBRARY_PATH": ":".join([str(Path(sys.prefix, "lib")), *folders])}
