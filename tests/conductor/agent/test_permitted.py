"""Orders that whoever can change what passes between conductor and agent might send."""

from dataclasses import replace

import pytest

from conductor import messages
from conductor.agent.permitted import require_permitted
from conductor.injectors.base import Writer
from conductor.wire import WireError
from records.timetable import PlannedWrite
from tests.conductor.conftest import LOGS

WRITER = Writer(3, "o1", "t1", "10.0.0.1", 20000, 65536, device="mlx5_0:1")
LOG = "/run/logs/melt/0/writer-3-origin.log"
START = messages.StartEnd("origin", "ucx", WRITER, LOG)
PART = messages.Perform(
    *("ucx", "/run/logs/melt/0/writes-node-1.b.log", WRITER, [("t1", "fd00::1")]),
    *(2, 0.0, 0.1, 0.3, [PlannedWrite(0, 0, 0.0, 1.0)]),
)
USED = replace(WRITER, device="bond0.12")


@pytest.mark.parametrize(
    "order",
    [
        START,
        replace(START, writer=USED),
        PART,
        messages.BeginWatch(["mlx5_0", "eth0", "ib0:1"], [], [], []),
        messages.Control("stop", [3]),
        messages.Ping(),
    ],
)
def test_what_a_conductor_orders_is_done(order):
    require_permitted(order, LOGS)


def writer(**changes):
    return replace(WRITER, **changes)


@pytest.mark.parametrize(
    ("order", "why"),
    [
        (replace(START, log="/home/user/.bashrc"), "bashrc"),
        (replace(START, log="/run/logs/melt/0/../0/writer-3-origin.log"), "none of /run/logs"),
        (replace(START, log="/run/logs/melt/0/samples.jsonl"), "samples"),
        (replace(START, log="writer-3-origin.log"), "none of /run/logs"),
        (replace(START, injector="sh"), "injector 'sh'"),
        (replace(START, writer=writer(address="--out_json_file=/x")), "address"),
        (replace(START, writer=writer(device="-d")), "device '-d'"),
        (replace(START, writer=writer(device="../../x")), "device"),
        (replace(PART, log="/run/logs/melt/0/writes-.bashrc.log"), "writes-"),
        (replace(PART, targets=[("t1", "10.0.0.1"), ("t2", "-x")]), "address '-x'"),
        (messages.BeginWatch(["../../../proc"], [], [], []), "device"),
    ],
)
def test_no_other_order_is_done(order, why):
    with pytest.raises(WireError, match="an order that no conductor gives") as refused:
        require_permitted(order, LOGS)
    assert why in str(refused.value)


def test_no_order_sets_a_variable():
    """That of earlier versions could, such as LD_PRELOAD."""
    name, fields = messages.encode(START)
    fields["writer"]["environment"] = [["LD_PRELOAD", "/x.so"]]
    assert messages.order([name, fields]) == START
