"""Mooncake's transfer engine, which moves blocks of key-value caches between inference servers.

A message is a block, and a request moves several. The engine's one-sided writes need no call of the
target's program. Over tcp a thread of the target's engine receives them; over RDMA nothing should.
"""

from __future__ import annotations

import ctypes
import sys
import time
from typing import Any

from nimc.machine import devices
from nimc.node.injectors import pair
from nimc.node.injectors.base import Writer

#: Blocks of a request: so many, or so many bytes; a larger block goes in pieces.
_BLOCKS, _REQUEST_B, _PIECE_B = 32, 2 << 20, 8 << 20
#: The mark behind the blocks: the bytes that were complete before the request that it came with.
_MARK_B = 8
#: How often the target looks at the mark, seconds.
_LOOK_S = 0.05


class Mooncake(pair.Paired):
    """Requests of the transfer engine."""

    name = "mooncake"
    module = "mooncake.engine"
    extra = "mooncake"

    def transport(self, writer: Writer) -> str:
        """That of a named RDMA device, else tcp."""
        return devices.transport(writer.device) if devices.is_rdma(writer.device) else "tcp"


def _request(message_b: int) -> tuple[int, int]:
    """Bytes of a piece, and the number of pieces in a request."""
    piece_b = min(message_b, _PIECE_B)
    return piece_b, min(max(_REQUEST_B // piece_b, 1), _BLOCKS)


def _engine(ends: pair.Ends, host: str) -> tuple[Any, Any]:
    """The engine, and its memory for blocks and mark."""
    from mooncake.engine import TransferEngine

    engine = TransferEngine()
    rdma = devices.is_rdma(ends.device)
    device = ends.device if rdma else ""
    if engine.initialize(host, "P2PHANDSHAKE", "rdma" if rdma else "tcp", device) != 0:
        sys.exit("writer: the transfer engine cannot be set up")
    piece_b, pieces = _request(ends.message_b)
    memory = (ctypes.c_char * (max(ends.message_b, piece_b * pieces) + _MARK_B))()
    if engine.register_memory(ctypes.addressof(memory), len(memory)) != 0:
        sys.exit("writer: the transfer engine cannot register its memory")
    return engine, memory


def _receive(ends: pair.Ends, link: pair.Link) -> None:
    """Look at the mark; the engine's own threads receive, if any does."""
    engine, memory = _engine(ends, ends.address)
    link.send(f"{ends.address}:{engine.get_rpc_port()} {ctypes.addressof(memory)}")
    while True:
        time.sleep(_LOOK_S)
        link.report(int.from_bytes(memory[-_MARK_B:], sys.byteorder))


def _send(ends: pair.Ends, link: pair.Link) -> None:
    engine, memory = _engine(ends, link.own_address)
    target, there = link.receive().split()
    piece_b, pieces = _request(ends.message_b)
    mark_at = len(memory) - _MARK_B
    places = [at * piece_b for at in range(mark_at // piece_b)]
    sizes_b = [piece_b] * pieces + [_MARK_B]

    def put(before_b: int) -> None:
        memory[-_MARK_B:] = before_b.to_bytes(_MARK_B, sys.byteorder)
        first = before_b // piece_b
        at = [places[(first + piece) % len(places)] for piece in range(pieces)] + [mark_at]
        here = [ctypes.addressof(memory) + each for each in at]
        if engine.batch_transfer_sync_write(target, here, [int(there) + x for x in at], sizes_b):
            sys.exit("writer: the transfer engine failed to write")

    pair.write(ends, link, piece_b * pieces, put)


def main() -> None:
    """Entry point of both ends."""
    pair.run(_receive, _send)
