"""Example messages: every kind of order of a conductor and of report of an agent."""

from conductor import messages
from conductor.readings import (
    CounterSample,
    DeviceSample,
    DeviceSeries,
    FinishedWrite,
    LoadSample,
    MeterRecord,
    NodeSeries,
    Placement,
    RateRow,
)
from records.machine.node_counters import NodeCounter
from records.timetable import PlannedWrite
from tests import made_writers

WRITER = made_writers.writer(
    index=3,
    origin="o1",
    target="t1",
    address="10.0.0.1",
    port=20003,
    rate_b_s=5e8,
    full_b_s=2e9,
    messages=None,
    device="eth0",
    buffer_node=1,
    cpus=[0, 1],
)

MAKE_WRITES = messages.MakeWrites(
    injector="perftest",
    writer=WRITER,
    targets=[("t1", "10.0.0.1"), ("t2", "10.0.0.2")],
    passive_sides=2,
    zero_s=1.7e9,
    setup_s=0.1,
    max_delay_s=0.3,
    writes=[PlannedWrite(7, 1, 0.125, 0.5), PlannedWrite(9, 0, 2.0, 2.5)],
)

DEVICE = DeviceSeries("a", "rdma:a/1", [DeviceSample(7.5, 4000, None)])
NODE = NodeSeries(
    node="n7",
    devices=[DEVICE],
    loads=[LoadSample(4.5, None, 3, 400)],
    busiest_program="stress",
    frequencies_hz=[2e9],
    free_cpus="0-3",
)

NEWS = messages.WriterNews(
    writer=3,
    row=RateRow(1.7e9, 1.7e9 + 1, 2e9),
    samples=[CounterSample(1.7e9 - 0.25, 5e8), CounterSample(1.7e9, 1e9)],
)

ORDERS = [
    messages.StartWriterEnd("origin", "ucx", WRITER),
    messages.ControlWriters("hold", [0, 1]),
    MAKE_WRITES,
    messages.FinishWrites(2.5),
    messages.BeginWatch(["mlx5_0", "mlx5_1"], [0, 1], [4711], []),
    messages.EndWatch(),
    messages.Ping(),
]

REPORTS = [
    messages.Hello("n7", {"cpus": 4, "numa": [{"id": 0}], "governor": None}),
    messages.Pong(1.7e9 + 0.5),
    messages.WriterNews(
        writer=3, listening=True, transport="shared memory", why_ended="exit status 1"
    ),
    NEWS,
    messages.WritersStopped(
        [
            Placement(
                writer=3, role="target", own_binding="none", buffers_b={"0": 1 << 26}, pinned_b=None
            )
        ]
    ),
    messages.WatchBegun(),
    messages.WriterNews(writer=3, meter=MeterRecord(3, "sent by mlx5_0", False, "it stopped")),
    messages.WatchRecord(NODE, {"e:stalled": NodeCounter(0.25, "1", "gauge")}, [3]),
    messages.WatchRecord(NodeSeries(node="n7")),
    messages.WritesMade([FinishedWrite(0, 1.5, 2.5, 6.4e9, 0.25)], {"nobody there": 2}),
]
