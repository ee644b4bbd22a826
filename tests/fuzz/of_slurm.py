"""What Slurm and ReFrame say, and what goes over the wire between conductor and agents."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from analysis.report import data as blocks
from conductor import messages, wire
from nimc.cluster import learn, reservation
from nimc.run import runner
from records.errors import MachineError
from records.machine import slurm
from tests.conductor.test_messages import ORDERS, REPORTS
from tests.fuzz.target import Target, captures, lay_out, text_of, tree
from tests.nimc.cluster.test_reservation import LINE

_SQUEUE = b"12|R|2026-11-23T20:00:00|None|/a/b\n13|PD|N/A|Priority|/c\n"
_SINFO = b"node1 idle\nnode2 mixed-\nnode2 mixed-\nnode3 down*\nnode4 idle~\n"
_LOGS = {
    "job.json": '{"outcome": "done", "reason": null}',
    "block.json": '{"state": "failed", "reason": "writer 0: it ended"}',
    "reframe.json": json.dumps(
        {
            "runs": [
                {"testcases": [{"result": "fail", "fail_phase": "run", "fail_reason": "x"}]},
                {"testcases": [{"result": "skip"}]},
            ]
        }
    ),
    "reframe.log": "[ SKIP ] stream [no such feature]\nERROR: something failed\n",
}


def _failure(text: bytes, folder: Path) -> None:
    logs = lay_out(text, folder / "logs" / "case" / "0", _LOGS)
    for status in (0, 1, -9, -64):
        said = runner.why_failed(status, logs)
        assert said is None or "\n" not in said
    runner.is_done(logs)
    blocks.unfinished_blocks(folder)


def _shapes(text: bytes, _: Path) -> None:
    learn.shapes(text_of(text), "batch")


def _modules(text: bytes, _: Path) -> None:
    learn.modules_in(text_of(text))


def _message(name: str, decode: Callable[[Any], object]) -> Target:
    def read(text: bytes, _: Path) -> None:
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):  # as `Wire.receive` refuses it
            return
        decode(data)

    return Target(f"wire.{name}", read, _MESSAGES, (wire.WireError,))


def _line(text: bytes, _: Path) -> None:
    """A line as an end receives it from one that knows the secret."""
    asyncio.run(_received(text))


async def _received(text: bytes) -> object:
    reader = asyncio.StreamReader(limit=wire.LIMIT_B)
    reader.feed_data(text)
    reader.feed_eof()
    # Only the reading side is used.
    return await wire.Wire(reader, None).receive()  # type: ignore[arg-type]


_MESSAGES = [json.dumps(messages.encode(each)).encode() for each in (*ORDERS, *REPORTS)]

TARGETS = [
    Target("slurm.squeue", lambda text, at: slurm.working_in(at, text_of(text)), [_SQUEUE]),
    Target("slurm.reservation", lambda text, _: reservation.parse(text_of(text)),
           [LINE.replace("Users=root", "Users=root,ada").encode()], (MachineError,)),
    Target("slurm.sinfo", lambda text, _: slurm.nodes_in(text_of(text)), [_SINFO]),
    Target("slurm.partitions", lambda text, _: learn.partitions(text_of(text)),
           captures("slurm/partitions.txt")),
    Target("slurm.shapes", _shapes, captures("slurm/nodes.txt")),
    Target("slurm.settings", lambda text, _: learn.settings(text_of(text)),
           captures("slurm/config.txt")),
    Target("slurm.mpi types", lambda text, _: learn.mpi_types(text_of(text)),
           captures("slurm/mpi_list.txt")),
    Target("slurm.accounts", lambda text, _: learn.accounts(text_of(text)),
           [b"bench\nphysics\n"]),
    Target("modules.avail", _modules, captures("modules/*.txt")),
    Target("reframe.failure", _failure, [tree(_LOGS), tree(_LOGS | {"block.json": "{}"})]),
    _message("order", messages.order),
    _message("report", messages.report),
    Target("wire.line", _line, [each + b"\n" for each in _MESSAGES], (wire.WireError,)),
]  # fmt: skip
