"""The connection between conductor and agents: lines of JSON over TCP.

Each end first proves to the other that it has the secret of the job, without sending it. The agent
sends a challenge; the conductor answers it and adds its own, which the agent answers. Nothing else
is accepted before, and it must come soon. Lines are not encrypted, since they contain nothing
confidential.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hmac
import json
import random
import secrets
import socket
import struct
import sys
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

#: Environment variables that hold the conductor's address and the job's secret for an agent.
ADDRESS_VARIABLE = "NIMC_CONDUCTOR"
SECRET_VARIABLE = "NIMC_SECRET"
#: The folder of the block's logs.
LOGS_VARIABLE = "NIMC_LOGS"
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
#: How long an end may take to prove that it has the secret, seconds.
PROOF_S = 10.0
#: For how long an agent calls the conductor, and its longest pause before it calls again, seconds.
_JOIN_S, RETRY_S = 120.0, 1.0
#: Characters of a challenge and of its answer, in hexadecimal.
_CHARACTERS = 64


class WireError(Exception):
    """The other end does not belong to this job, sent an invalid message, or is gone."""


class StrangerError(WireError):
    """The other end does not have the job's secret."""


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
            return json.loads(await self._completed(self.reader.readuntil(b"\n")))
        except (ValueError, RecursionError):
            raise WireError("a line is not JSON") from None

    async def _completed(self, reading: Awaitable[bytes]) -> bytes:
        """Return what is being read. Raises WireError if it does not come."""
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


def print_in_one_line(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Say in one line what asyncio could not give to anybody, in place of its traceback."""
    error = context.get("exception")
    why = f": {type(error).__name__}: {error}" if error else ""
    print(f"{context['message']}{why}".replace("\n", " "), file=sys.stderr, flush=True)


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


def _answer(secret: str, role: str, challenges: bytes) -> bytes:
    """The answer of one end to both challenges; that of the other end differs."""
    return hmac.new(secret.encode(), role.encode() + challenges, "sha256").hexdigest().encode()


async def _received(connection: socket.socket, length: int, within_s: float) -> bytes:
    """Receive `length` characters, and no more, so that a stranger fills no memory.

    Raises WireError if they do not come within `within_s` seconds.
    """

    async def read() -> bytes:
        received, loop = b"", asyncio.get_running_loop()
        while len(received) < length:
            if not (piece := await loop.sock_recv(connection, length - len(received))):
                raise WireError("the connection closed")
            received += piece
        return received

    try:
        return await asyncio.wait_for(read(), within_s)
    except asyncio.TimeoutError:
        raise WireError(f"no proof of the job's secret came within {within_s:.0f} s") from None
    except OSError:
        raise WireError("the connection closed") from None


def _require(proof: bytes, expected: bytes) -> None:
    if not hmac.compare_digest(proof, expected):
        raise StrangerError("the other end does not have the job's secret")


async def open_wire(connection: socket.socket) -> Wire:
    """One end of a connection whose ends have proved that they have the secret."""
    reader, writer = await asyncio.open_connection(sock=connection, limit=LIMIT_B)
    return Wire(reader=reader, writer=writer)


async def admit(connection: socket.socket, secret: str) -> None:
    """Have a caller prove that it has the secret, and prove the same to it.

    Raises WireError or OSError for a stranger.
    """
    loop, own = asyncio.get_running_loop(), new_secret().encode()
    _notice_silence(connection)
    challenges = await _received(connection, _CHARACTERS, PROOF_S) + own
    await loop.sock_sendall(connection, own + _answer(secret, "conductor", challenges))
    _require(
        await _received(connection, _CHARACTERS, PROOF_S), _answer(secret, "agent", challenges)
    )


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
    """Connect to the conductor, from the local address `source` if given.

    A conductor that many strangers call may hang up before it has answered: it is called again.
    Raises OSError if nobody answers, WireError if it does not have the secret.
    """
    until_s = time.monotonic() + _JOIN_S
    while True:
        connection = socket.socket()
        try:
            connection.setblocking(False)
            if source:
                connection.bind((source, 0))
            await asyncio.get_running_loop().sock_connect(connection, (host, port))
            return await _introduced(connection, secret)
        except WireError as error:
            connection.close()
            if isinstance(error, StrangerError) or time.monotonic() > until_s:
                raise type(error)(f"{host}:{port}: {error}") from None
        except BaseException:
            connection.close()
            raise
        await asyncio.sleep(random.uniform(0.0, RETRY_S))


async def _introduced(connection: socket.socket, secret: str) -> Wire:
    """The agent's end of a new connection."""
    loop, own = asyncio.get_running_loop(), new_secret().encode()
    _notice_silence(connection)
    try:
        await loop.sock_sendall(connection, own)
        answer = await _received(connection, 2 * _CHARACTERS, _JOIN_S)
        challenges = own + answer[:_CHARACTERS]
        _require(answer[_CHARACTERS:], _answer(secret, "conductor", challenges))
        await loop.sock_sendall(connection, _answer(secret, "agent", challenges))
    except OSError:
        raise WireError("the connection closed") from None
    return await open_wire(connection)
