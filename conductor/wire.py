"""The connection between conductor and agents: lines of JSON over TCP.

The first line of an agent is the secret of the job; nothing is accepted before it, and it must come
soon. Lines are not encrypted, since they contain nothing confidential.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hmac
import json
import secrets
import socket
import struct
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

#: Environment variables that hold the conductor's address and the job's secret for an agent.
ADDRESS_VARIABLE = "NIMC_CONDUCTOR"
SECRET_VARIABLE = "NIMC_SECRET"
#: Network interface to connect over; not set if the routing decides.
INTERFACE_VARIABLE = "NIMC_INTERFACE"
_SIOCGIFADDR = 0x8915
#: A node that is switched off closes no connection: after this many seconds without an answer of
#: its kernel it has failed. An emulated node under load may be silent for a few.
_SILENCE_S = 20
_KEEPALIVE_S = 5
_NODE_GONE = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH)
#: Longest line, bytes: an origin reports all writes of a timetable of an hour in one.
LIMIT_B = 16 * 1024 * 1024
#: How long the first line may take, seconds.
FIRST_S = 10.0


class WireError(Exception):
    """The other end does not belong to this job, sent an invalid message, or is gone."""


class SilentNodeError(WireError):
    """The kernel of the other end's node does not answer; a process that ends closes its end."""


@dataclass
class Wire:
    """One end of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def peer(self) -> str:
        """Address of the other end."""
        return str(self.writer.get_extra_info("peername")[0])

    def send(self, message: Any) -> None:
        """Send one message, a JSON value; returns before it is sent."""
        self.writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    async def receive(self) -> Any:
        """Wait for one message, a JSON value.

        Raises WireError if the line is too long or not JSON, or the connection is closed.
        """
        try:
            return json.loads(await self.awaited(self.reader.readuntil(b"\n")))
        except (ValueError, RecursionError):
            raise WireError("a line is not JSON") from None

    async def awaited(self, reading: Awaitable[bytes]) -> bytes:
        """What is being read. Raises WireError if it does not come."""
        try:
            return await reading
        except asyncio.LimitOverrunError:
            raise WireError(f"a line is longer than {LIMIT_B} bytes") from None
        except asyncio.IncompleteReadError:
            raise WireError("the connection closed") from None
        except OSError as error:
            if error.errno in _NODE_GONE:
                raise SilentNodeError(f"its node did not answer for {_SILENCE_S} s") from None
            raise WireError("the connection closed") from None

    def close(self) -> None:
        """Close the connection."""
        self.writer.close()


def new_secret() -> str:
    """A secret for one job."""
    return secrets.token_hex(32)


def _notice_silence(connection: socket.socket) -> None:
    """Have the kernel close a connection whose other end does not answer, idle or not."""
    for level, option, value in (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_S),
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENCE_S * 1000),
    ):
        connection.setsockopt(level, option, value)


async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: str) -> Wire:
    """The conductor's end of a new connection, once its first line was the job's secret."""
    wire, expected = Wire(reader, writer), secret.encode() + b"\n"
    _notice_silence(writer.get_extra_info("socket"))
    try:
        # No more than its length is waited for, so that a stranger fills no memory.
        first = wire.awaited(reader.readexactly(len(expected)))
        said = await asyncio.wait_for(first, FIRST_S)
    except asyncio.TimeoutError:
        raise WireError(f"the job's secret did not come within {FIRST_S:.0f} s") from None
    if not hmac.compare_digest(said, expected):
        raise WireError("the first line was not the job's secret")
    return wire


def interface_address(interface: str) -> str:
    """IPv4 address of a network interface of this node; raises WireError if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("256s", interface.encode()[:15])
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
        except OSError as error:
            raise WireError(f"interface {interface}: {error.strerror}") from None
    return socket.inet_ntoa(answer[20:24])


async def connect(host: str, port: int, secret: str, source: str | None) -> Wire:
    """Connect to the conductor, from the local address `source` if given."""
    local = (source, 0) if source else None
    reader, writer = await asyncio.open_connection(host, port, limit=LIMIT_B, local_addr=local)
    _notice_silence(writer.get_extra_info("socket"))
    writer.write(secret.encode() + b"\n")
    return Wire(reader, writer)
