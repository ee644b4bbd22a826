"""Lines of a crontab or a scrontab, and the table in which they replace older ones. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from campaigns.nightly.description import Nightly
from campaigns.nightly.window import DAYS


def cron_block(nightly: Nightly, command: Sequence[str]) -> str:
    """For `crontab`."""
    log = shlex.quote(str(log_file(nightly)))
    line = f"{shlex.join(command)} > {log} 2>&1".replace("%", r"\%")  # cron's end of line
    return _marked(nightly, "--cron", [f"{times(nightly)} {line}"])


def scrontab_block(nightly: Nightly, command: Sequence[str]) -> str:
    """For `scrontab`: the night itself is a small job, which submits the others.

    Raises InputError for a log that no option of scrontab can name: its words end at blanks,
    whatever their quotes, and Slurm removes backslashes.
    """
    log = str(log_file(nightly))
    if " " in log or "\\" in log:
        raise nightly.refuse("results", log, "a path without blanks and backslashes")
    options = [
        f"--job-name=nimc-{nightly.name}",
        f"--time={nightly.longest_s // 60}",
        f"--output={log.replace('%', '%%')}",  # Slurm replaces %j and others
        "--open-mode=truncate",
        *nightly.asked.job,
    ]
    lines = [f"#SCRON {option}" for option in options]
    return _marked(nightly, "--scrontab", [*lines, f"{times(nightly)} {shlex.join(command)}"])


def times(nightly: Nightly) -> str:
    """Minute, hour and days as crontab has them. scrontab takes one name of a day, or numbers."""
    asked = nightly.asked.window
    numbers = sorted((DAYS.index(day) + 1) % 7 for day in asked.days)
    days = "*" if len(numbers) == 7 else ",".join(map(str, numbers))
    return f"{asked.start.minute} {asked.start.hour} * * {days}"


def log_file(nightly: Nightly) -> Path:
    """What the last start of a night printed."""
    return nightly.folder / f"{nightly.name}.log"


def merged(table: str, block: str) -> str:
    """The table with the block in place of the one with the same marks; else at its end."""
    own = block.rstrip("\n").split("\n")
    begin, end = own[0], own[-1]
    lines = table.removesuffix("\n").split("\n") if table else []
    if begin in lines and end in lines[lines.index(begin) :]:
        first = lines.index(begin)
        last = lines.index(end, first)
        kept = [*lines[:first], *own, *lines[last + 1 :]]
    else:
        kept = [*lines, *own]
    return "\n".join(kept) + "\n"


def _marked(nightly: Nightly, option: str, lines: Sequence[str]) -> str:
    return "\n".join(
        [
            f"# BEGIN nimc nightly {nightly.target}",
            f"# made by 'nimc nightly init {nightly.target} {option}', which replaces these lines",
            *lines,
            f"# END nimc nightly {nightly.target}",
            "",
        ]
    )
