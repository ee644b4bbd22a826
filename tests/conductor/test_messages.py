"""Every message arrives as it was sent. Invalid messages are refused with an error of one line."""

import json

import pytest

from conductor import messages
from conductor.wire import WireError
from tests.conductor.made_messages import NEWS, ORDERS, REPORTS


def over_the_wire(message):
    return json.loads(json.dumps(messages.encode(message)))


def test_messages_arrive_as_they_were_sent():
    for sent in ORDERS:
        assert messages.decode_order(over_the_wire(sent)) == sent
    for sent in REPORTS:
        assert messages.decode_report(over_the_wire(sent)) == sent
    # A named tuple is equal to a plain tuple, so the fields are read by name.
    news = messages.decode_report(over_the_wire(NEWS))
    assert (news.samples[1].total, news.row.rate_b_s) == (1e9, 2e9)
    assert {type(message) for message in ORDERS} == set(messages.get_args(messages.Order))
    assert {type(message) for message in REPORTS} == set(messages.get_args(messages.Report))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (["Dance", 1], "unknown message 'Dance'"),
        ({"do": "stop"}, "unknown message .*stop"),
        ([], "unknown message"),
        (["Ping", {}], "unknown message 'Ping'"),  # an order is no report
        (["Pong", {}], "malformed message Pong: now_s: missing"),
        (["Pong", {"now_s": "now"}], "malformed message Pong: now_s: 'now' found"),
        (["WriterNews", {"writer": "me"}], "writer: 'me' found"),
        (
            ["WritesMade", {"finished": [[1, 2.0]], "faults": {}}],
            "WritesMade: finished.0",
        ),
        (["WritesMade", {"finished": [], "faults": {"x": None}}], "faults.x: nothing found"),
        (["WritersStopped", {"placements": None}], "placements: nothing found; allowed: a list"),
    ],
)
def test_an_invalid_report_is_refused_in_one_line(data, text):
    with pytest.raises(WireError, match=text) as error:
        messages.decode_report(data)
    assert "\n" not in str(error.value)
