"""A finding about a host: what was checked, its state, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class HostFinding:
    """The state of one thing that was checked."""

    what: str
    #: `limited`: works with the restriction in `detail`, or missing and needed by some campaigns
    #: only.
    state: Literal["ok", "limited", "missing"]
    detail: str
    #: How to get what is missing; empty if there is nothing to do.
    remedy: str = ""
    #: True if campaigns on this machine require it.
    needed: bool = False


def fault_finding(
    subject: str, detail: str, remedy: str = "", *, needed: bool = False
) -> HostFinding:
    """Return the finding of a fault: `missing` if campaigns require the subject, else `limited`."""
    return HostFinding(subject, "missing" if needed else "limited", detail, remedy, needed)


def required_finding(subject: str, fault: object, detail: str, remedy: str) -> HostFinding:
    """Return the finding about a subject that campaigns require; `fault` is empty if it is fine."""
    if fault:
        return fault_finding(subject, str(fault), remedy, needed=True)
    return HostFinding(subject, "ok", detail, needed=True)
