"""Checks that an order is one that a conductor may give.

The conductor has proved that it has the job's secret. Still, somebody who can change the bytes
between conductor and agent can send orders. Such orders can only start the programs of injectors,
since no order names a file or sets a variable. Names of devices and nodes become words of commands,
so they must be single words that are no options.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import replace

from conductor import messages
from conductor.injectors import INJECTORS
from conductor.injectors.base import Writer
from conductor.wire import WireError
from records.machine.fabrics import PERFTEST_FILE_OPTION

#: A device's name, which is neither an option of a program nor a path.
_DEVICE = re.compile(r"[A-Za-z0-9_][\w.:@-]*", re.ASCII)
#: A node's name. A colon or a comma would separate hosts, or groups of ranks, in a launcher's
#: options.
_NODE = re.compile(r"[A-Za-z0-9_][\w.-]*", re.ASCII)


def require_permitted(order: messages.Order) -> None:
    """Raise WireError for an order that no conductor gives."""
    for fault in _faults(order):
        raise WireError(f"an order that no conductor gives: {fault}")


def _faults(order: messages.Order) -> Iterator[str]:
    match order:
        case messages.StartWriterEnd():
            yield from _injector_faults(order.injector)
            yield from _writer_faults(order.writer)
        case messages.MakeWrites():
            yield from _injector_faults(order.injector)
            yield from _writer_faults(order.writer)
            for node, address in order.targets:
                yield from _writer_faults(replace(order.writer, target=node))
                yield from _address_faults(address)
        case messages.BeginWatch():
            yield from (f"device {name!r}" for name in order.devices if not _is_device(name))


def _injector_faults(name: str) -> Iterator[str]:
    if name not in INJECTORS:
        yield f"injector {name!r}"


def _writer_faults(writer: Writer) -> Iterator[str]:
    if writer.origin != writer.target:  # on one host, no command contains the host's name
        yield from _node_faults(writer.origin)
        yield from _node_faults(writer.target)
    if writer.address:  # passive sides of a timetable have no address
        yield from _address_faults(writer.address)
    if writer.device is not None and not _is_device(writer.device):
        yield f"device {writer.device!r}"
    for option in writer.options:
        if PERFTEST_FILE_OPTION.fullmatch(option):
            yield f"option {option!r}"


def _node_faults(name: str) -> Iterator[str]:
    if not _NODE.fullmatch(name):
        yield f"node {name!r}"


def _is_device(name: str) -> bool:
    return bool(_DEVICE.fullmatch(name))


def _address_faults(address: str) -> Iterator[str]:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        yield f"address {address!r}"
