"""Starts the program of one end of a writer, and parses its output."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import IO

from conductor.injectors.base import (
    Arrived,
    EndRole,
    Fault,
    Injector,
    LineParser,
    Row,
    Total,
    Writer,
)
from records import processes
from records.last_words import Gist, failure_reason

#: What a program reports in a line, apart from faults.
ProgramReport = Row | Total | Arrived


def log_of(logs: Path, writer: Writer, role: EndRole) -> Path:
    """Return the path of the log with the output of one end."""
    return logs / f"writer-{writer.index}-{role}.log"


async def start_writer_end(
    injector: Injector, writer: Writer, role: EndRole, stdout: int | IO[bytes]
) -> asyncio.subprocess.Process | str:
    """Start one end of a writer, which prints to `stdout`; return the reason if that fails."""
    if role == "target":
        command = injector.target_command(writer)
    else:
        command = injector.origin_command(writer)
    assert command is not None, "a control has no passive side"
    environment = injector.environment(writer)
    stderr = asyncio.subprocess.STDOUT
    try:
        return await processes.spawn(
            command, environment, writer.cpus, stdout, stderr, writer.buffer_node
        )
    except OSError as error:
        device = writer.device if writer.origin != writer.target else None
        return injector.why_missing(device) or f"{command[0]}: {error.strerror or error}"


async def read_output(
    process: asyncio.subprocess.Process,
    parser: LineParser,
    on_report: Callable[[ProgramReport], None],
    log: IO[bytes] | None = None,
) -> str:
    """Call `on_report` with each report of a process until it ends; return why it ended.

    The process's output is appended to `log`. If that fails, reading ends, and the reason for the
    failure is returned.
    """
    assert process.stdout is not None
    gist = Gist()
    async for raw_line in processes.output_lines(process.stdout):
        if log:
            try:
                log.write(raw_line)
            except OSError as error:
                return f"its log {log.name}: {error.strerror}"
        line = raw_line.decode(errors="replace")
        report = parser.parse(line)
        if isinstance(report, Fault):
            gist.add_fault(report.text)
        elif report is None:
            gist.add(line)
        else:
            on_report(report)
    return failure_reason(await process.wait(), gist)
