"""A finding about a host or a machine: what was checked, its state, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class HostFinding:
    """The state of one thing that was checked."""

    #: The thing that was checked.
    what: str
    #: `limited` means that the thing works with the restriction in `detail`, or that it is missing,
    #: but only some campaigns need it.
    state: Literal["ok", "limited", "missing"]
    #: What was found.
    detail: str
    #: What the user should do; empty if there is nothing to do.
    remedy: str = ""
    #: Whether all campaigns on this machine require the thing.
    needed: bool = False


def fault_finding(
    subject: str, detail: str, remedy: str = "", *, needed: bool = False
) -> HostFinding:
    """Return the finding that a subject has a fault.

    Its state is `missing` if campaigns require the subject (`needed`), or else `limited`.
    """
    return HostFinding(subject, "missing" if needed else "limited", detail, remedy, needed)


def required_finding(subject: str, fault: object, detail: str, remedy: str) -> HostFinding:
    """Return the finding about a subject that campaigns require.

    `fault` is empty if the subject has no fault. `detail` describes a subject without a fault.
    """
    if fault:
        return fault_finding(subject, str(fault), remedy, needed=True)
    return HostFinding(subject, "ok", detail, needed=True)
