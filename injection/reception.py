"""Lets the agents of this job in, and strangers neither in nor in the way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from injection import messages, wire

#: Calls that have not signed yet and are kept, beside one of each node; and how long they are kept
#: when there are more, seconds.
_STRANGERS = 64
_CROWDED_S = 1.0
#: Calls that the kernel keeps until they are accepted: with fewer, agents would wait for seconds in
#: a crowd; all may be accepted at once, and a process may have 1,024 files.
_WAITING = 512


class Reception:
    """Listens for agents; `welcome` serves each one that has signed and said its name."""

    def __init__(
        self,
        secret: str,
        nodes: int,
        welcome: Callable[[wire.Wire, messages.Hello], Awaitable[None]],
    ) -> None:
        self._secret = secret
        self._calls = nodes + _STRANGERS
        self._welcome = welcome
        #: Connections that have not signed yet, oldest first -> when each was made.
        self._unsigned: dict[asyncio.StreamWriter, float] = {}
        self._server: asyncio.Server | None = None

    async def listen(self, address: str) -> int:
        """Listen on one address only; returns the port."""
        self._server = await asyncio.start_server(
            self._join, address, 0, limit=wire.UNSIGNED_B, backlog=_WAITING
        )
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        """Accept no more."""
        if self._server:
            self._server.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection; one that does not sign is closed without an answer."""
        if not self._admit(writer):
            writer.transport.abort()
            return
        try:
            connection = await wire.accept(reader, writer, self._secret)
        except (wire.WireError, OSError):
            writer.transport.abort()
            return
        finally:
            self._unsigned.pop(writer, None)
        try:
            hello = messages.report(await connection.receive())
        except (wire.WireError, OSError):
            writer.close()
            return
        if not isinstance(hello, messages.Hello):
            connection.close()
            return
        await self._welcome(connection, hello)

    def _admit(self, writer: asyncio.StreamWriter) -> bool:
        """Whether there is room for one more connection that has not signed.

        An agent signs at once, so in a crowd the oldest makes room after a second. Until then
        newcomers are turned away; agents call again.
        """
        now_s = time.monotonic()
        if len(self._unsigned) >= self._calls:
            oldest, made_s = next(iter(self._unsigned.items()))
            if now_s - made_s < _CROWDED_S:
                return False
            del self._unsigned[oldest]
            oldest.transport.abort()
        self._unsigned[writer] = now_s
        return True
