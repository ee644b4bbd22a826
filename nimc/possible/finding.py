"""A finding: what was looked for, how it is, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One answer to whether something is there."""

    what: str
    #: `limited`: works with the restriction in `detail`, or missing and needed by some campaigns
    #: only.
    state: Literal["ok", "limited", "missing"]
    detail: str
    #: How to get what is missing; empty if there is nothing to do.
    remedy: str = ""
    #: Whether campaigns on this machine require it.
    needed: bool = False


def gap(what: str, detail: str, remedy: str = "", *, needed: bool = False) -> Finding:
    """What is missing if campaigns require it, and else restricts them."""
    return Finding(what, "missing" if needed else "limited", detail, remedy, needed)


def required(what: str, fault: object, detail: str, remedy: str) -> Finding:
    """What campaigns require: `fault` says what is wrong with it, if anything, else `detail`."""
    if fault:
        return gap(what, str(fault), remedy, needed=True)
    return Finding(what, "ok", detail, needed=True)
