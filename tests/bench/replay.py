"""A writer of ucx over tcp that follows a made trace: bytes of each second, and starts of bursts.

Counted by the network interface, apart from what the writer reports; over loopback, or over a veth
whose other end is in a namespace (needs root). Other traces:

    python -m tests.bench.replay lo|veth counted|reported SECONDS DUTY BURST_S MB_S

`counted` closes the loop by the interface's counter, as agents do with one writer; `reported` by
the writer's reports only.
"""

import asyncio
import contextlib
import os
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from conductor import counters
from conductor.follower import Follower
from conductor.injectors.base import Row, Writer
from conductor.injectors.ucx import Ucx
from records import clock, processes
from records.timetable import along
from testbed import namespaces
from testbed.shell import run as call
from tests.bench import BenchRow, at_least, below

#: Seconds, duty, length of a burst in seconds and rate within it in MB/s.
_TRACES = [(60, 0.1, 1, 400), (60, 0.5, 2, 400), (60, 0.9, 9, 400)]
_MESSAGE_B = 64 * 1024
_PORT = 13467
#: Time between two readings of the counter, seconds.
_EVERY_S = 0.002
#: A burst has begun when so many bytes of it have passed: more than acknowledgements.
_BEGUN_B = 1_000_000

#: Reports of its rate alone.
_ROWS = 4
#: Name of the link's device here, and of the namespace.
_VETH = "nimc-replay"
_COMMANDS = (
    f"link add {_VETH} mtu 9000 type veth peer name eth0 mtu 9000 netns {_VETH}",
    f"address add 10.79.3.1/24 dev {_VETH}",
    f"link set {_VETH} up",
    f"-n {_VETH} address add 10.79.3.2/24 dev eth0",
    f"-n {_VETH} link set eth0 up",
)

Values = NDArray[np.float64]
Readings = tuple[Values, Values]


def run() -> list[BenchRow]:
    """Seconds with the wanted bytes, and how late bursts start."""
    over = ["lo", *(["veth"] if os.geteuid() == 0 else [])]
    return [row for each in over for trace in _TRACES for row in _measured(each, "counted", *trace)]


def _measured(
    over: str, loop: str, seconds: int, duty: float, burst_s: int, mb_s: float
) -> list[BenchRow]:
    pause_s = round(burst_s / duty) - burst_s
    one = [0.0] * pause_s + [mb_s * 1e6] * burst_s
    rates = (one * -(-seconds // len(one)))[:seconds]
    with _link() if over == "veth" else contextlib.nullcontext(("lo", "127.0.0.1", [])) as link:
        read = asyncio.run(_follow(rates, loop == "counted", *link))
    name = f"{over}, {seconds} s, duty {duty:.0%}, bursts of {burst_s} s"
    return _figures(name, rates, read)


def _figures(name: str, rates: list[float], read: Readings) -> list[BenchRow]:
    """Of readings: seconds since the traffic's begin, and the counter's bytes."""
    at_s, bytes_b = read
    wanted = np.array(rates)
    done = np.diff(np.interp(np.arange(len(rates) + 1), at_s, bytes_b))
    # A silent second is compared with those of bursts.
    error = (done - wanted) / np.where(wanted > 0, wanted, max(rates))
    begins = np.flatnonzero((wanted[1:] > 0) & (wanted[:-1] == 0)) + 1
    late = []
    for begin in begins:
        # What was owed from before, and drains, would end half a second before it.
        quiet = np.interp(begin - 0.2, at_s, bytes_b)
        late.append(at_s[np.searchsorted(bytes_b, quiet + _BEGUN_B)] - begin)
    late_s = np.array(late)
    half = max(len(late_s) // 2, 1)
    drift_s = float(np.median(late_s[-half:]) - np.median(late_s[:half]))
    return [
        at_least(f"{name}: bins of 1 s within 5 %", float(np.mean(abs(error) <= 0.05)), "", 0.95),
        BenchRow(f"{name}: difference of a bin, 95 %", float(np.quantile(abs(error), 0.95))),
        BenchRow(f"{name}: all bytes, of the wanted", float(done.sum() / wanted.sum())),
        BenchRow(f"{name}: start of a burst, late by, median", float(np.median(late_s)), "s"),
        BenchRow(f"{name}: start of a burst, late by, most", float(np.max(abs(late_s))), "s"),
        below(f"{name}: drift of starts, second half to first", abs(drift_s), "s", 0.02),
    ]


async def _follow(
    rates: list[float], counted: bool, device: str, address: str, ns: list[str]
) -> Readings:
    """Readings of the counter during the traffic, from its begin on."""
    injector = Ucx()
    writer = Writer(0, "origin", "target", address, _PORT, _MESSAGE_B, device=device)
    async with _writing(injector, writer, ns) as origin:
        rates_b_s: list[float] = []
        followers: list[Follower] = []
        rows = asyncio.create_task(_rows(injector, writer, origin, rates_b_s, followers))
        while len(rates_b_s) < _ROWS:
            await asyncio.sleep(0.1)
        full_b_s = float(np.median(rates_b_s))
        print(f"  {device}: alone at {full_b_s / 1e6:.0f} MB/s", file=sys.stderr, flush=True)
        passed = (lambda: _sent_b(device)) if counted else (lambda: None)
        followers.append(Follower(origin, _MESSAGE_B, along(rates), full_b_s, passed))
        from_s = clock.now_s()
        task = asyncio.create_task(followers[0].run())
        with ThreadPoolExecutor(1) as pool:
            until_s = from_s + len(rates) + 0.1
            readings = await asyncio.wrap_future(pool.submit(_readings, device, until_s))
        for each in (task, rows):
            each.cancel()
        await asyncio.gather(task, rows, return_exceptions=True)
    at_s, bytes_b = np.array(readings).T
    return at_s - from_s, bytes_b


async def _rows(
    injector: Ucx, writer: Writer, origin: Process, into: list[float], followers: list[Follower]
) -> None:
    """What the writer reports, as the agent takes it."""
    assert origin.stdout
    parser, last_s = injector.parser(writer), clock.now_s()
    async for raw in processes.lines(origin.stdout):
        row, now_s = parser.parse(raw.decode()), clock.now_s()
        if isinstance(row, Row):
            for each in followers:
                each.reported(row.rate_b_s * (now_s - last_s), now_s - last_s)
            into.append(row.rate_b_s)
            last_s = now_s


def _readings(device: str, until_s: float) -> list[tuple[float, float]]:
    found = []
    while (now_s := clock.now_s()) < until_s:
        found.append((now_s, _sent_b(device)))
        time.sleep(_EVERY_S)
    return found


def _sent_b(device: str) -> float:
    reading = counters.read(device, "sent")
    assert reading
    return float(reading.bytes_b)


@contextlib.asynccontextmanager
async def _writing(injector: Ucx, writer: Writer, ns: list[str]) -> AsyncIterator[Process]:
    """An origin that writes at full rate."""
    environment, pipe = injector.environment(writer), asyncio.subprocess.PIPE
    target_environment = environment | {"UCX_NET_DEVICES": "all"}
    ends = []
    try:
        command = [*ns, *injector.target_command(writer)]
        ends.append(await processes.spawn(command, target_environment, [], pipe, pipe))
        await asyncio.sleep(1)
        ends.append(
            await processes.spawn(injector.origin_command(writer), environment, [], pipe, pipe)
        )
        yield ends[-1]
    finally:
        for each in reversed(ends):
            await processes.stop(each)


@contextlib.contextmanager
def _link() -> Iterator[tuple[str, str, list[str]]]:
    """A veth to a namespace: its device here, the address there, and how to run there."""
    namespaces.add_namespace(_VETH)
    try:
        for command in _COMMANDS:
            call(["ip", *command.split()])
        yield _VETH, "10.79.3.2", ["ip", "netns", "exec", _VETH]
    finally:
        namespaces.kill_all([_VETH])
        namespaces.remove(_VETH, [_VETH], made_folder=False)


def main() -> None:
    """Another trace, from the command line."""
    over, loop, seconds, duty, burst_s, mb_s = sys.argv[1:]
    for row in _measured(over, loop, int(seconds), float(duty), int(burst_s), float(mb_s)):
        print(f"{row.name}: {row.value:.4g} {row.unit} {'' if row.ok is None else row.ok}")


if __name__ == "__main__":
    main()
