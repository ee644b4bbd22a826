"""User units of systemd: a service that runs a night, and its timer. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from campaigns.nightly.description import Nightly


def units(nightly: Nightly, command: Sequence[str]) -> dict[str, str]:
    """File name -> text."""
    asked = nightly.asked.window
    days = ",".join(day.capitalize() for day in asked.days)
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
            "# Slower is a result, and no failure of the service.\n"
            "SuccessExitStatus=1\n"
        ),
        f"{name}.timer": (
            "[Unit]\n"
            f"Description=nights of nimc nightly {nightly.name}\n"
            "\n"
            "[Timer]\n"
            f"OnCalendar={days} *-*-* {asked.start:%H:%M}:00\n"
            "AccuracySec=1min\n"
            "# A night that was missed is not made up for in the day.\n"
            "Persistent=false\n"
            "\n"
            "[Install]\n"
            "WantedBy=timers.target\n"
        ),
    }


def _line(command: Sequence[str]) -> str:
    """ExecStart: words quoted, without specifiers; variables are expanded in all but the first."""
    program, *words = map(_quoted, command)
    return " ".join([program, *(word.replace("$", "$$") for word in words)])


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
