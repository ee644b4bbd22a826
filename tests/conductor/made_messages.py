"""One of each order and report that conductor and agents send."""

from conductor import messages
from conductor.injectors.base import Writer
from conductor.judge.series import (
    CounterSample,
    DeviceSample,
    DeviceSeries,
    LoadSample,
    Metered,
    NodeSeries,
    Placed,
    RateRow,
)
from records.machine.node_counters import NodeCounter
from records.timetable import FinishedWrite, PlannedWrite

WRITER = Writer(3, "o1", "t1", "10.0.0.1", 20003, 65536, 5e8, 2e9, None, "eth0", 1, [0, 1], [])

PART = messages.Perform(
    *("perftest", "log", WRITER, [("t1", "10.0.0.1"), ("t2", "10.0.0.2")], 2, 1.7e9, 0.1, 0.3),
    [PlannedWrite(7, 1, 0.125, 0.5), PlannedWrite(9, 0, 2.0, 2.5)],
)

DEVICE = DeviceSeries("a", "rdma:a/1", [DeviceSample(7.5, 4000, None)])
NODE = NodeSeries("n7", [DEVICE], [LoadSample(4.5, None, 3, 400)], "stress", [2e9], "0-3")

NEWS = messages.News(
    3,
    row=RateRow(1.7e9, 1.7e9 + 1, 2e9),
    samples=[CounterSample(1.7e9 - 0.25, 5e8), CounterSample(1.7e9, 1e9)],
)

ORDERS = [
    messages.StartEnd("origin", "ucx", WRITER, "/logs/writer-3-origin.log"),
    messages.Control("hold", [0, 1]),
    PART,
    messages.Finish(2.5),
    messages.BeginWatch(["mlx5_0", "mlx5_1"], [0, 1], [4711], []),
    messages.EndWatch(),
    messages.Ping(),
]

REPORTS = [
    messages.Hello("n7", {"cpus": 4, "numa": [{"id": 0}], "governor": None}),
    messages.Pong(1.7e9 + 0.5),
    messages.News(3, listening=True, transport="shared memory", ended="exit status 1"),
    NEWS,
    messages.WritersStopped([Placed(3, "target", "none", {"0": 1 << 26}, None)]),
    messages.Watching(),
    messages.News(3, meter=Metered(3, "sent by mlx5_0", False, "it stopped")),
    messages.Observed(NODE, {"e:stalled": NodeCounter(0.25, "1", "gauge")}, [3]),
    messages.Observed(NodeSeries("n7")),
    messages.Written([FinishedWrite(0, 1.5, 2.5, 6.4e9, 0.25)], {"nobody there": 2}),
]
