"""What an agent does for its conductor, and nothing else.

The conductor has proved that it has the job's secret. Whoever can change what passes between the
two could all the same send orders of their own: these can start the programs of injectors and write
to the logs of the block, whose folder the agent's environment says. No order sets a variable.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path

from conductor import messages
from conductor.injectors import INJECTORS
from conductor.injectors.base import Writer
from conductor.wire import WireError

_LOG = re.compile(r"(writer-[0-9]+-(origin|target)|writes-[A-Za-z0-9][\w.-]*)\.log", re.ASCII)
#: No option of a program, and no path.
_DEVICE = re.compile(r"[A-Za-z0-9_][\w.:@-]*", re.ASCII)


def require_permitted(order: messages.Order, logs: Path) -> None:
    """Raise WireError for an order of what no conductor orders; `logs`: the block's folder."""
    for why in _against(order, logs):
        raise WireError(f"an order that no conductor gives: {why}")


def _against(order: messages.Order, logs: Path) -> Iterator[str]:
    match order:
        case messages.StartEnd():
            yield from _against_start(order.injector, order.log, logs)
            yield from _against_writer(order.writer)
        case messages.Perform():
            yield from _against_start(order.injector, order.log, logs)
            yield from _against_writer(order.writer)
            for _, address in order.targets:
                yield from _against_address(address)
        case messages.BeginWatch():
            yield from (f"device {name!r}" for name in order.devices if not _is_device(name))


def _against_start(injector: str, log: str, logs: Path) -> Iterator[str]:
    if injector not in INJECTORS:
        yield f"injector {injector!r}"
    if log != str(logs / Path(log).name) or not _LOG.fullmatch(Path(log).name):
        yield f"log {log!r}, which is none of {logs}"


def _against_writer(writer: Writer) -> Iterator[str]:
    if writer.address:  # passive sides of a timetable have none
        yield from _against_address(writer.address)
    if writer.device is not None and not _is_device(writer.device):
        yield f"device {writer.device!r}"


def _is_device(name: str) -> bool:
    return bool(_DEVICE.fullmatch(name))


def _against_address(address: str) -> Iterator[str]:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        yield f"address {address!r}"
