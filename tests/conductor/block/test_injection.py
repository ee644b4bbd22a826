"""Writers of an injection: their rates are compared with the rates that they reach alone.

An injection starts writers beside a command of the user. The *rate alone* of a writer is the rate
that it reaches while nothing else runs. Rates are worked out by hand.
"""

import asyncio
import errno
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from conductor.block.hub import WriterState
from conductor.block.injection import (
    OUTPUT_FILE,
    Command,
    InjectionConductor,
    InjectionRequest,
    conduct,
)
from conductor.judge.series import Series
from conductor.readings import RateRow
from nimc.cluster import injection_session
from nimc.cluster.injection_session import RequestedWrites
from records import clock, injected
from records.checkout import ROOT
from tests.conductor import made_series
from tests.records.machine.made import machine

#: Ten seconds, in which the target counts all bytes of the writers.
WINDOW = (0.0, 10.0)


def request_of(folder: Path, rate: str = "full") -> InjectionRequest:
    box = machine("same_job", device="mlx5_0", interface="hsn0")
    request = injection_session.injection_request(
        box, RequestedWrites(rate=rate), folder, folder / "record.json"
    )
    request.block.logs.mkdir(parents=True)
    injected.begin(request.block.logs)
    return request


def notes_of(request: InjectionRequest) -> list[str]:
    path = request.block.logs / injected.SUMMARY_FILE
    notes: list[str] = json.loads(path.read_bytes())["notes"] if path.exists() else []
    return notes


@pytest.mark.parametrize(
    ("rate_b_s", "notes"),
    [
        (249.0, ["wrote at 249 % of the rate alone: the rate alone was disturbed"]),
        (125.0, []),
    ],
)
def test_writes_beyond_the_rate_alone_are_proven_and_it_is_noted_once(
    tmp_path: Path, rate_b_s: float, notes: list[str]
) -> None:
    request = request_of(tmp_path)
    conductor = InjectionConductor(request)
    states = [WriterState(made_series.writer(made_series.rows(*[rate_b_s] * 12, start_s=-1.0)))]
    received_b = int(10 * rate_b_s)
    observed = Series(nodes=[made_series.node(made_series.device(received_b), over_s=10.0)])
    for _ in range(2):
        conductor.record_window(observed, states, WINDOW)
        states[0].series.rows[:] = made_series.rows(*[rate_b_s] * 12, start_s=-1.0)
    summary = json.loads((request.block.logs / injected.SUMMARY_FILE).read_bytes())
    assert (summary["proven"], summary["reason"]) == (True, None)
    assert notes_of(request) == notes


@pytest.mark.parametrize(
    ("rate", "requested_b_s", "reached_b_s", "notes"),
    [
        (
            "10TB/s",
            1e13,
            2e9,
            [
                "the requested rate was not reached: 10TB/s of each writer requested, 2 GB/s"
                " reached alone"
            ],
        ),
        ("2GB/s", 2e9, 1.9e9, []),
        ("full", None, 2e9, []),
    ],
)
def test_a_requested_rate_that_is_not_reached_is_noted(
    tmp_path: Path, rate: str, requested_b_s: float | None, reached_b_s: float, notes: list[str]
) -> None:
    request = request_of(tmp_path, rate)
    writers = [
        WriterState(made_series.writer([], alone_b_s=alone_b_s, fields={"rate_b_s": requested_b_s}))
        for alone_b_s in (1e14, reached_b_s)
    ]
    InjectionConductor(request).note_rate_not_reached(writers)
    assert notes_of(request) == notes


class Rig:
    """Writers that reach `rate_b_s` beside the command.

    `alone_b_s` are the rates alone that are measured, one after the other.
    """

    def __init__(self, rate_b_s: float, *alone_b_s: float):
        self._rate_b_s, self._alone_b_s = rate_b_s, [*alone_b_s]
        self.remeasurements = 0
        self.writers = self.hub = self
        self.rate_row_interval_s = 0.01

    async def start(self, _writes: Any) -> list[WriterState]:
        now_s = clock.now_s()
        rows = [RateRow(now_s + second, now_s + second + 1, self._rate_b_s) for second in (-1, 0)]
        return [WriterState(made_series.writer(rows, alone_b_s=self._alone_b_s[0]))]

    async def reach_speed(self, _states: Any) -> bool:
        return True

    async def wait_for(self, _condition: Any, timeout_s: float) -> bool:
        await asyncio.sleep(min(timeout_s, 0.02))
        return True

    async def hold_or_stop(self, _writes: Any, _states: Any) -> None: ...

    async def measure_again(self, _writes: Any) -> None:
        self.remeasurements += 1
        del self._alone_b_s[0]


def test_a_full_disk_ends_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is written when the command has ended, and the failure is its reason."""
    request = request_of(tmp_path)
    request.summary.command[:] = ["sh", "-c", f"sleep 0.2; touch {tmp_path}/done"]

    async def write(injection: InjectionConductor) -> None:
        await injection.command.start()
        raise OSError(errno.EDQUOT, "quota exceeded")

    monkeypatch.setattr(InjectionConductor, "write", write)
    asyncio.run(conduct(request))
    record = json.loads((tmp_path / "record.json").read_bytes())
    assert (tmp_path / "done").exists()
    assert (record["ended_by"], record["proven"]) == ("failure", False)
    assert "quota exceeded" in record["reason"]


def test_a_command_finds_the_python_and_the_mpi_of_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A configuration puts the folder of this Python first on the PATH of a job."""
    own = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{own}:/usr/bin:/bin")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    request = request_of(tmp_path)
    request.summary.command[:] = ["sh", "-c", 'echo "$PATH" "$PYTHONPATH"']
    command = Command(request)

    async def run() -> None:
        await command.start()
        await command.wait()

    asyncio.run(run())
    output = (request.block.logs / OUTPUT_FILE).read_text()
    assert output == f"/usr/bin:/bin:{own} \n"


@pytest.mark.parametrize(
    ("alone_b_s", "remeasurements", "used_b_s"),
    [
        ((100.0,), 0, 100.0),
        ((40.0, 100.0), 1, 100.0),
        ((40.0, 40.0, 40.0), 2, 40.0),  # at most as often as a run is retried
    ],
)
def test_a_disturbed_rate_alone_is_measured_again_before_the_command(
    tmp_path: Path, alone_b_s: tuple[float, ...], remeasurements: int, used_b_s: float
) -> None:
    rig: Any = Rig(100.0, *alone_b_s)
    writes: Any = None
    conductor = InjectionConductor(request_of(tmp_path))
    states = asyncio.run(conductor.start_writers(rig, rig, writes))
    assert (rig.remeasurements, states[0].series.alone_b_s) == (remeasurements, used_b_s)
