"""The orders that an agent takes from its conductor, and no others.

The conductor has proved that it has the job's secret. Whoever can change what passes between the
two could all the same send orders of their own: these can start the programs of injectors. No order
names a file or sets a variable.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from conductor import messages
from conductor.injectors import INJECTORS
from conductor.injectors.base import Writer
from conductor.wire import WireError

#: No option of a program, and no path.
_DEVICE = re.compile(r"[A-Za-z0-9_][\w.:@-]*", re.ASCII)


def require_permitted(order: messages.Order) -> None:
    """Raise WireError for an order of what no conductor orders."""
    for why in _against(order):
        raise WireError(f"an order that no conductor gives: {why}")


def _against(order: messages.Order) -> Iterator[str]:
    match order:
        case messages.StartEnd():
            yield from _against_injector(order.injector)
            yield from _against_writer(order.writer)
        case messages.MakeWrites():
            yield from _against_injector(order.injector)
            yield from _against_writer(order.writer)
            for _, address in order.targets:
                yield from _against_address(address)
        case messages.BeginWatch():
            yield from (f"device {name!r}" for name in order.devices if not _is_device(name))


def _against_injector(name: str) -> Iterator[str]:
    if name not in INJECTORS:
        yield f"injector {name!r}"


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
