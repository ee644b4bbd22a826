"""The machine of this host, found as ReFrame does: by the host names in `configs/`."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence

from analysis.checkout import ROOT
from analysis.errors import InputError
from campaigns.host.settings import settings_of

#: What any host is unless another machine names it.
_FALLBACK = "localhost"
#: A pattern that names no host in particular.
_ANY = ".*"


def default_machine() -> str:
    """The machine whose configuration names this host."""
    configs = sorted((ROOT / "configs").glob("*.py"))
    return matching(
        {each.stem: settings_of(each).hostnames for each in configs}, socket.gethostname()
    )


def matching(hostnames: Mapping[str, Sequence[str]], host: str) -> str:
    """The machine with a pattern that matches `host` from its start, as in ReFrame.

    That is `localhost` if no other does. Raises InputError if there are several.
    """
    found = [
        machine
        for machine, patterns in hostnames.items()
        if any(pattern != _ANY and re.match(pattern, host) for pattern in patterns)
    ]
    if len(found) > 1:
        raise InputError(
            f"--machine: required, since 'hostnames' of several machines in configs/ match host"
            f" '{host}'; allowed: {', '.join(found)}"
        )
    return found[0] if found else _FALLBACK
