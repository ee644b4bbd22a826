"""Checks the program that the user gives to `nimc measure` or `nimc inject` before a job starts."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Sequence

import click

from nimc.cli.answer import log
from nimc.cli.options import words_given
from records.commands import command
from records.errors import InputError

#: Characters that only a shell interprets.
_SHELL_CHARACTERS = re.compile(r"[|&;<>$`*?(){}\n]")


def require_program(argument: str, words: Sequence[str], *, in_job: bool) -> None:
    """Raise InputError if the shell would not find the program, the first of `words`.

    The message begins with `argument`, the command's argument that names the program. If the
    program runs in a job (`in_job`), a name without `/` may be missing here, since modules of the
    job or its nodes may have the program: a line says so. Another line names the options of `nimc`
    that are arguments of the program, since they stand after it.
    """
    program, *_ = words
    if options := _options_after(words):
        log(
            f"words after {program!r} are its arguments, not options of nimc:"
            f" {', '.join(options)} (`--` before the program says that this is meant)"
        )
    if shutil.which(program) is not None:
        return
    may_be_in_job = in_job and "/" not in program
    if separate_words := _separate_words(program, trusted=may_be_in_job):
        name = str(click.get_current_context().info_name)
        corrected = command(name, *words_given(), "--", *separate_words, *words[1:])
        raise InputError(
            f"{argument}: no program {program!r}; allowed: separate words: `{corrected}`"
        )
    if may_be_in_job:
        log(f"no program {program!r} on PATH here; the job fails if modules and nodes lack it too")
    elif "/" in program:
        raise InputError(f"{argument}: {program!r} is not an executable file")
    else:
        raise InputError(f"{argument}: no program {program!r} on PATH")


def _separate_words(program: str, *, trusted: bool) -> list[str]:
    """Return the words of a command line that the user gave as one word.

    Returns an empty list if it is none: its first word is no program. If `trusted`, this is not
    looked up. What only a shell understands is given to one.
    """
    if program.split() in ([program], []):
        return []
    if _SHELL_CHARACTERS.search(program):
        return ["sh", "-c", program]
    try:
        words = shlex.split(program)
    except ValueError:  # an open quote
        return []
    return words if words and (trusted or shutil.which(words[0])) else []


def _options_after(words: Sequence[str]) -> list[str]:
    """Return the options of this command of `nimc` that stand after the program.

    Returns an empty list if the user has ended the options by `--`.
    """
    if "--" in sys.argv[: -len(words)]:
        return []
    parameters = click.get_current_context().command.params
    names = {name for parameter in parameters for name in parameter.opts if name[:2] == "--"}
    return [name for name in (word.partition("=")[0] for word in words[1:]) if name in names]
