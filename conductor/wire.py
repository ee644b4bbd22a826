"""The connection between conductor and agents: lines of JSON over TCP.

First, each end proves to the other that it has the secret of the job, without sending the secret.
The agent sends a challenge. The conductor answers it and sends a challenge of its own, which the
agent answers. The conductor accepts nothing before this proof, and closes the connection if the
proof is late. Lines are not encrypted, since they contain nothing confidential.
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
from dataclasses import dataclass
from typing import Any

#: Environment variables that hold the conductor's address and the job's secret for an agent.
ADDRESS_VARIABLE = "NIMC_CONDUCTOR"
SECRET_VARIABLE = "NIMC_SECRET"
#: Environment variable with the folder of the block's logs.
LOGS_VARIABLE = "NIMC_LOGS"
#: Environment variable with the network interface to connect over; not set if the routing decides.
INTERFACE_VARIABLE = "NIMC_INTERFACE"
#: Request of `ioctl` for the IPv4 address of an interface.
_SIOCGIFADDR = 0x8915
#: Longest name of an interface, bytes.
_LONGEST_INTERFACE_NAME_B = 15
#: The bytes of the answer to that request (`struct ifreq`) that are the address.
_ADDRESS_BYTES = slice(20, 24)
#: A node has failed if its kernel has not answered for this time, seconds. A node that is switched
#: off closes no connection. An emulated node under load may be silent for a few seconds.
_SILENCE_S = 20
#: Time between two messages of the kernel to a silent node, seconds.
_KEEPALIVE_S = 5
#: Errors of a connection to a node that does not answer.
_NODE_GONE = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH)
#: Longest line, bytes. An origin gets, and reports, all writes of an hour's timetable in one line;
#: a write takes some 40 bytes.
LONGEST_LINE_B = 256 * 1024 * 1024
#: How long an agent may take to prove that it has the secret, seconds.
PROOF_TIMEOUT_S = 10.0
#: How long an agent keeps trying to connect to the conductor, seconds.
_JOIN_TIMEOUT_S = 120.0
#: Longest pause before it tries again, seconds.
RETRY_S = 1.0
#: Length of a challenge, and of a proof, in hexadecimal characters.
_PROOF_CHARACTERS = 64


class WireError(Exception):
    """The other end belongs to another job, sent an invalid message, or closed the connection."""


class StrangerError(WireError):
    """The other end does not have the job's secret."""


class ClosedError(WireError):
    """The connection was closed."""


class SilentNodeError(ClosedError):
    """The other end's node does not answer.

    If only the process at the other end had ended, the node's kernel would answer.
    """


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
        """Send one message, a JSON value, in the background."""
        self.writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    async def receive(self) -> Any:
        """Wait for one message, a JSON value.

        Raises WireError if the line is too long or not JSON, or if the connection is closed.
        """
        try:
            return json.loads(await self._read_line())
        except (ValueError, RecursionError):
            raise WireError("a line is not JSON") from None

    async def _read_line(self) -> bytes:
        try:
            return await self.reader.readuntil(b"\n")
        except asyncio.LimitOverrunError:
            raise WireError(f"a line is longer than {LONGEST_LINE_B} bytes") from None
        except asyncio.IncompleteReadError:
            raise ClosedError("the connection closed") from None
        except OSError as error:
            if error.errno in _NODE_GONE:
                raise SilentNodeError(f"its node did not answer for {_SILENCE_S} s") from None
            raise ClosedError("the connection closed") from None

    def close(self) -> None:
        """Close the connection."""
        self.writer.close()


def print_in_one_line(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Print an unhandled error of a task in one line. asyncio would print a traceback."""
    error = context.get("exception")
    why = f": {type(error).__name__}: {error}" if error else ""
    print(f"{context['message']}{why}".replace("\n", " "), file=sys.stderr, flush=True)


def new_secret() -> str:
    """Return a random secret, in hexadecimal."""
    return secrets.token_hex(32)


def _close_if_silent(connection: socket.socket) -> None:
    """Let the kernel close a connection, idle or not, if the other end does not answer."""
    for level, option, value in (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_S),
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENCE_S * 1000),
    ):
        connection.setsockopt(level, option, value)


def _proof(secret: str, role: str, challenges: bytes) -> bytes:
    """Return the answer of the end with this role to the challenges of both ends."""
    return hmac.new(secret.encode(), role.encode() + challenges, "sha256").hexdigest().encode()


async def _receive(connection: socket.socket, length: int, timeout_s: float) -> bytes:
    """Receive `length` characters, and no more, so that no stranger fills the memory.

    Raises WireError if they do not arrive within `timeout_s` seconds.
    """

    async def read() -> bytes:
        received, loop = b"", asyncio.get_running_loop()
        while len(received) < length:
            if not (piece := await loop.sock_recv(connection, length - len(received))):
                raise WireError("the connection closed")
            received += piece
        return received

    try:
        return await asyncio.wait_for(read(), timeout_s)
    except asyncio.TimeoutError:
        raise WireError(f"no proof of the job's secret came within {timeout_s:.0f} s") from None
    except OSError:
        raise WireError("the connection closed") from None


def _require_proof(proof: bytes, expected_proof: bytes) -> None:
    if not hmac.compare_digest(proof, expected_proof):
        raise StrangerError("the other end does not have the job's secret")


async def open_wire(connection: socket.socket) -> Wire:
    """Return one end of a connection whose two ends have proved that they have the secret."""
    reader, writer = await asyncio.open_connection(sock=connection, limit=LONGEST_LINE_B)
    return Wire(reader=reader, writer=writer)


async def admit(connection: socket.socket, secret: str) -> None:
    """Let an agent prove that it has the secret, and prove to the agent that we have it.

    Raises WireError or OSError if the other end does not prove it.
    """
    loop, challenge = asyncio.get_running_loop(), new_secret().encode()
    _close_if_silent(connection)
    challenges = await _receive(connection, _PROOF_CHARACTERS, PROOF_TIMEOUT_S) + challenge
    await loop.sock_sendall(connection, challenge + _proof(secret, "conductor", challenges))
    agent_proof = await _receive(connection, _PROOF_CHARACTERS, PROOF_TIMEOUT_S)
    _require_proof(agent_proof, _proof(secret, "agent", challenges))


def interface_address(interface: str) -> str:
    """Return the IPv4 address of a network interface here; raises WireError if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("256s", interface.encode()[:_LONGEST_INTERFACE_NAME_B])
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
        except OSError as error:
            raise WireError(f"interface {interface}: {error.strerror}") from None
    return socket.inet_ntoa(answer[_ADDRESS_BYTES])


async def connect(host: str, port: int, secret: str, source_address: str | None) -> Wire:
    """Connect to the conductor, from the local `source_address` if there is one.

    If strangers keep the conductor busy, it may close the connection before it has answered. Then
    the agent tries again, for `_JOIN_TIMEOUT_S` seconds. Raises OSError if nobody listens, and
    WireError if the other end does not have the secret, or has closed every connection.
    """
    until_s = time.monotonic() + _JOIN_TIMEOUT_S
    while True:
        connection = socket.socket()
        try:
            connection.setblocking(False)
            if source_address:
                connection.bind((source_address, 0))
            await asyncio.get_running_loop().sock_connect(connection, (host, port))
            return await _wire_after_proof(connection, secret)
        except WireError as error:
            connection.close()
            if isinstance(error, StrangerError) or time.monotonic() > until_s:
                raise type(error)(f"{host}:{port}: {error}") from None
        except BaseException:
            connection.close()
            raise
        await asyncio.sleep(random.uniform(0.0, RETRY_S))


async def _wire_after_proof(connection: socket.socket, secret: str) -> Wire:
    """Return the agent's end of a new connection after both ends have proved the secret."""
    loop, challenge = asyncio.get_running_loop(), new_secret().encode()
    _close_if_silent(connection)
    try:
        await loop.sock_sendall(connection, challenge)
        answer = await _receive(connection, 2 * _PROOF_CHARACTERS, _JOIN_TIMEOUT_S)
        challenges = challenge + answer[:_PROOF_CHARACTERS]
        conductor_proof = answer[_PROOF_CHARACTERS:]
        _require_proof(conductor_proof, _proof(secret, "conductor", challenges))
        await loop.sock_sendall(connection, _proof(secret, "agent", challenges))
    except OSError:
        raise WireError("the connection closed") from None
    return await open_wire(connection)
