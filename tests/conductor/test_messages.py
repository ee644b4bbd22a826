"""Every message arrives as it was sent; what is no message is refused in one line."""

import json

import pytest

from conductor import messages
from conductor.injectors.base import Writer
from conductor.series import (
    CounterSample,
    DeviceSample,
    DeviceSeries,
    LoadSample,
    Metered,
    NodeSeries,
    Placed,
    RateRow,
)
from conductor.wire import WireError
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


def over_the_wire(message):
    return json.loads(json.dumps(messages.encode(message)))


def test_messages_arrive_as_they_were_sent():
    for sent in ORDERS:
        assert messages.order(over_the_wire(sent)) == sent
    for sent in REPORTS:
        assert messages.report(over_the_wire(sent)) == sent
    # A named tuple equals a plain one.
    news = messages.report(over_the_wire(NEWS))
    assert (news.samples[1].total, news.row.rate_b_s) == (1e9, 2e9)
    assert {type(each) for each in ORDERS} == set(messages.get_args(messages.Order))
    assert {type(each) for each in REPORTS} == set(messages.get_args(messages.Report))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (["Dance", 1], "unknown message 'Dance'"),
        ({"do": "stop"}, "unknown message .*stop"),
        ([], "unknown message"),
        (["Ping", {}], "unknown message 'Ping'"),  # an order is no report
        (["Pong", {}], "malformed message Pong: now_s: missing"),
        (["Pong", {"now_s": "now"}], "malformed message Pong: now_s: 'now' found"),
        (["News", {"writer": "me"}], "writer: 'me' found"),
        (
            ["Written", {"finished": [[1, 2.0]], "faults": {}}],
            "Written: finished.0",
        ),
        (["Written", {"finished": [], "faults": {"x": None}}], "faults.x: nothing found"),
        (["WritersStopped", {"placed": None}], "placed: nothing found; allowed: a list"),
    ],
)
def test_what_is_no_report_is_refused_in_one_line(data, text):
    with pytest.raises(WireError, match=text) as error:
        messages.report(data)
    assert "\n" not in str(error.value)
