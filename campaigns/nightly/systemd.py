"""User units of systemd: a service that runs a night, and its timer. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta

from campaigns.nightly.description import MARGIN_S, Nightly
from campaigns.nightly.window import DAYS, NightWindow


def units(nightly: Nightly, command: Sequence[str], today: date) -> dict[str, str]:
    """File name -> text."""
    asked = nightly.asked.window
    days = ",".join(day.capitalize() for day in asked.days)
    starts = [f"{days} *-*-* {asked.start:%H:%M}:00", *_after_gaps(nightly.window, today)]
    calendar = "".join(f"OnCalendar={start}\n" for start in starts)
    name = f"nimc-{nightly.unique_name}"
    return {
        f"{name}.service": (
            "[Unit]\n"
            f"Description=nimc nightly {nightly.name} on {nightly.asked.machine}\n"
            "\n"
            "[Service]\n"
            "Type=oneshot\n"
            f"ExecStart={_line(command)}\n"
            f"TimeoutStartSec={nightly.longest_s}\n"
            "# It stops the campaign itself, and then reports.\n"
            "KillMode=mixed\n"
            f"TimeoutStopSec={MARGIN_S}\n"
            "# Slower is a result, and no failure of the service.\n"
            "SuccessExitStatus=1\n"
        ),
        f"{name}.timer": (
            "[Unit]\n"
            f"Description=nights of nimc nightly {nightly.name}\n"
            "\n"
            "[Timer]\n"
            f"{calendar}"
            "AccuracySec=1min\n"
            "# A night that was missed is not made up for in the day.\n"
            "Persistent=false\n"
            "\n"
            "[Install]\n"
            "WantedBy=timers.target\n"
        ),
    }


def _after_gaps(window: NightWindow, today: date) -> Iterator[str]:
    """When nights start of which clocks skip the start: systemd leaves such days out.

    Clocks change on the same day of the week in the same month of each year.
    """
    for night in window.nights(today, today + timedelta(days=366)):
        start = datetime.fromtimestamp(night.start_s)
        if start.time() != window.start:
            day = DAYS[start.weekday()].capitalize()
            yield f"{day} *-{start:%m}-* {start:%H:%M}:00"


def _line(command: Sequence[str]) -> str:
    """ExecStart: words quoted, without specifiers; variables are expanded in all but the first."""
    program, *words = map(_quoted, command)
    return " ".join([program, *(word.replace("$", "$$") for word in words)])


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
