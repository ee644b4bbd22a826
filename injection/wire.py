"""The connection between conductor and agents: lines of JSON over TCP, signed with a job secret.

Both ends know the secret of the job and send a nonce; the key of each connection and direction is
derived from the three. Every line carries an HMAC over its sequence number and itself, so that
nobody without the secret can send, replay or reorder lines. Lines are not encrypted, since they
contain nothing confidential.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import hmac
import json
import secrets
import socket
import struct
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
#: Longest line, bytes: an origin reports all writes of a timetable of an hour in one.
LIMIT_B = 16 * 1024 * 1024


class WireError(Exception):
    """The other end does not belong to this job, sent an invalid message, or is gone."""


class Wire:
    """One end of a connection."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        send_key: bytes,
        receive_key: bytes,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._send_key = send_key
        self._receive_key = receive_key
        self._sent = 0
        self._received = 0

    @property
    def peer(self) -> str:
        """Address of the other end."""
        return str(self._writer.get_extra_info("peername")[0])

    def send(self, message: Any) -> None:
        """Send one message, a JSON value; returns before it is sent."""
        body = json.dumps(message, separators=(",", ":")).encode()
        self._writer.write(_sign(self._send_key, self._sent, body) + b" " + body + b"\n")
        self._sent += 1

    async def receive(self) -> Any:
        """Wait for one message, a JSON value.

        Raises WireError if the line is not signed or not JSON, or the connection is closed.
        """
        try:
            line = await self._reader.readuntil(b"\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            raise WireError("the connection closed") from None
        signature, _, body = line.rstrip(b"\n").partition(b" ")
        expected = _sign(self._receive_key, self._received, body)
        if not hmac.compare_digest(signature, expected):
            raise WireError("a line was not signed with the job's secret")
        self._received += 1
        try:
            return json.loads(body)
        except ValueError:
            raise WireError("a line is not JSON") from None

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


def _sign(key: bytes, number: int, body: bytes) -> bytes:
    return hmac.new(key, b"%d " % number + body, hashlib.sha256).hexdigest().encode()


def new_secret() -> str:
    """A secret for one job."""
    return secrets.token_hex(32)


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: str, server: bool
) -> Wire:
    _notice_silence(writer.get_extra_info("socket"))
    mine = secrets.token_hex(_NONCE_B).encode()
    writer.write(mine + b"\n")
    try:
        theirs = (await reader.readexactly(2 * _NONCE_B + 1)).removesuffix(b"\n")
    except asyncio.IncompleteReadError:
        theirs = b""
    if len(theirs) != 2 * _NONCE_B or theirs == mine:
        raise WireError("the other end does not speak this protocol")
    nonces = mine + theirs if server else theirs + mine
    keys = [
        hmac.new(secret.encode(), role + nonces, hashlib.sha256).digest()
        for role in (b"server", b"client")
    ]
    return Wire(reader, writer, *(keys if server else reversed(keys)))


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
    local = (source, 0) if source else None
    reader, writer = await asyncio.open_connection(host, port, limit=LIMIT_B, local_addr=local)
    return await _exchange(reader, writer, secret, server=False)
