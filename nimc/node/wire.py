"""The connection between conductor and agents: lines of JSON over TCP, signed with a job secret.

Both ends know the secret of the job and send a nonce; the key of each connection and direction is
derived from the three. Every line carries an HMAC over its sequence number and itself, so that
nobody without the secret can send, replay or reorder lines. Lines are not encrypted, since they
contain nothing confidential. The first line of each end only proves that it knows the secret; until
then lines must be short and come soon.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import hmac
import json
import random
import secrets
import socket
import struct
from dataclasses import dataclass
from typing import Any

#: Environment variables that hold the conductor's address and the job's secret for an agent.
ADDRESS_VARIABLE = "NIMC_CONDUCTOR"
SECRET_VARIABLE = "NIMC_SECRET"
#: Network interface to connect over; not set if the routing decides.
INTERFACE_VARIABLE = "NIMC_INTERFACE"
_NONCE_B = 16
_SIOCGIFADDR = 0x8915
#: A node that is switched off closes no connection: after this many seconds without an answer of
#: its kernel it has failed. An emulated node under load may be silent for a few.
_SILENCE_S = 20
_KEEPALIVE_S = 5
_NODE_GONE = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH)
#: Longest line, bytes: an origin reports all writes of a timetable of an hour in one.
LIMIT_B = 16 * 1024 * 1024
#: The longest line of an end that has not signed yet, bytes (also what is buffered of any line at
#: once), and how long it may take to sign, seconds.
UNSIGNED_B = 4 * 1024
UNSIGNED_S = 10.0
#: How often an agent calls: a conductor under a flood of unsigned calls may hang up on it.
_CALLS = 8


class WireError(Exception):
    """The other end does not belong to this job, sent an invalid message, or is gone."""


class SilentNodeError(WireError):
    """The kernel of the other end's node does not answer; a process that ends closes its end."""


@dataclass
class Wire:
    """One end of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    send_key: bytes
    receive_key: bytes
    #: Lines so far.
    sent: int = 0
    received: int = 0

    @property
    def peer(self) -> str:
        """Address of the other end."""
        return str(self.writer.get_extra_info("peername")[0])

    def send(self, message: Any) -> None:
        """Send one message, a JSON value; returns before it is sent."""
        body = json.dumps(message, separators=(",", ":")).encode()
        self.writer.write(_sign(self.send_key, self.sent, body) + b" " + body + b"\n")
        self.sent += 1

    async def receive(self) -> Any:
        """Wait for one message, a JSON value.

        Raises WireError if the line is not signed or not JSON, or the connection is closed.
        """
        line = await self._line(LIMIT_B if self.received else UNSIGNED_B)
        signature, _, body = line.rstrip(b"\n").partition(b" ")
        expected = _sign(self.receive_key, self.received, body)
        if not hmac.compare_digest(signature, expected):
            raise WireError("a line was not signed with the job's secret")
        self.received += 1
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise WireError("a line is not JSON") from None

    async def _line(self, limit_b: int) -> bytes:
        """One line; the reader buffers no more than `UNSIGNED_B` of it at once."""
        parts: list[bytes] = []
        length_b = 0
        while length_b <= limit_b:
            try:
                return b"".join([*parts, await self.reader.readuntil(b"\n")])
            except asyncio.LimitOverrunError as error:
                length_b += error.consumed
                if length_b <= limit_b:
                    parts.append(await self.reader.readexactly(error.consumed))
            except asyncio.IncompleteReadError:
                raise WireError("the connection closed") from None
            except OSError as error:
                if error.errno in _NODE_GONE:
                    raise SilentNodeError(f"its node did not answer for {_SILENCE_S} s") from None
                raise WireError("the connection closed") from None
        raise WireError(f"a line is longer than {limit_b} bytes")

    def close(self) -> None:
        """Close the connection."""
        self.writer.close()


def _sign(key: bytes, number: int, body: bytes) -> bytes:
    return hmac.new(key, b"%d " % number + body, hashlib.sha256).hexdigest().encode()


def new_secret() -> str:
    """A secret for one job."""
    return secrets.token_hex(32)


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: str, server: bool
) -> Wire:
    """The connection, once both ends have proven that they know the secret."""
    try:
        return await asyncio.wait_for(_prove(reader, writer, secret, server), UNSIGNED_S)
    except asyncio.TimeoutError:
        raise WireError(f"the other end did not sign within {UNSIGNED_S:.0f} s") from None


async def _prove(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: str, server: bool
) -> Wire:
    _notice_silence(writer.get_extra_info("socket"))
    mine = secrets.token_hex(_NONCE_B).encode()
    writer.write(mine + b"\n")
    try:
        theirs = (await reader.readexactly(2 * _NONCE_B + 1)).removesuffix(b"\n")
    except (asyncio.IncompleteReadError, OSError):
        raise WireError("the connection closed") from None
    if len(theirs) != 2 * _NONCE_B or theirs == mine:
        raise WireError("the other end does not speak this protocol")
    nonces = mine + theirs if server else theirs + mine
    keys = [
        hmac.new(secret.encode(), role + nonces, hashlib.sha256).digest()
        for role in (b"server", b"client")
    ]
    wire = Wire(reader, writer, *(keys if server else reversed(keys)))
    if server:  # a stranger gets nothing that is signed
        await wire.receive()
    wire.send(None)
    if not server:
        await wire.receive()
    return wire


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
    """The conductor's end of a new connection."""
    return await _exchange(reader, writer, secret, server=True)


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
    local, call = (source, 0) if source else None, 1
    while True:
        reader, writer = await asyncio.open_connection(
            host, port, limit=UNSIGNED_B, local_addr=local
        )
        try:
            return await _exchange(reader, writer, secret, server=False)
        except WireError:
            writer.close()
            if call == _CALLS:
                raise
        await asyncio.sleep(random.uniform(0.0, 0.05 * 2**call))
        call += 1
