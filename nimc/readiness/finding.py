"""A finding: what was looked for, how it is, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class HostFinding:
    """One answer to whether something is there."""

    what: str
    #: `limited`: works with the restriction in `detail`, or missing and needed by some campaigns
    #: only.
    state: Literal["ok", "limited", "missing"]
    detail: str
    #: How to get what is missing; empty if there is nothing to do.
    remedy: str = ""
    #: True if campaigns on this machine require it.
    needed: bool = False


def gap(subject: str, detail: str, remedy: str = "", *, needed: bool = False) -> HostFinding:
    """Return what is missing if campaigns require it, and else restricts them."""
    return HostFinding(subject, "missing" if needed else "limited", detail, remedy, needed)


def required(subject: str, fault: object, detail: str, remedy: str) -> HostFinding:
    """Return a finding that campaigns require; `fault`: what is wrong with it, if anything."""
    if fault:
        return gap(subject, str(fault), remedy, needed=True)
    return HostFinding(subject, "ok", detail, needed=True)
