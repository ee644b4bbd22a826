"""Orders that an agent carries out, and forged ones that it refuses.

An attacker who can change messages between conductor and agent might send the latter.
"""

from dataclasses import replace

import pytest

from conductor import messages
from conductor.agent.permitted import require_permitted
from conductor.wire import WireError
from records.timetable import PlannedWrite
from tests import made_writers

WRITER = made_writers.writer(
    index=3, origin="o1", target="t1", address="10.0.0.1", device="mlx5_0:1"
)
START = messages.StartWriterEnd("origin", "ucx", WRITER)
MAKE_WRITES = messages.MakeWrites(
    injector="ucx",
    writer=WRITER,
    targets=[("t1", "fd00::1")],
    passive_sides=2,
    zero_s=0.0,
    setup_s=0.1,
    max_delay_s=0.3,
    writes=[PlannedWrite(0, 0, 0.0, 1.0)],
)
BOND_WRITER = replace(WRITER, device="bond0.12")


@pytest.mark.parametrize(
    "order",
    [
        START,
        replace(START, writer=BOND_WRITER),
        replace(START, writer=replace(WRITER, options=("--tclass=106", "-R", "--outs=16"))),
        replace(START, writer=replace(WRITER, origin="nid001_a.example-site.org")),
        # The host name of a container that was given none.
        replace(START, writer=replace(WRITER, origin="(none)", target="(none)")),
        replace(
            MAKE_WRITES,
            writer=replace(WRITER, origin="(none)", target="(none)"),
            targets=[("(none)", "127.0.0.1")],
        ),
        MAKE_WRITES,
        messages.BeginWatch(["mlx5_0", "eth0", "ib0:1"], [], [], []),
        messages.ControlWriters("stop", [3]),
        messages.Ping(),
    ],
)
def test_what_a_conductor_orders_is_done(order):
    require_permitted(order)


def writer(**changes):
    return replace(WRITER, **changes)


@pytest.mark.parametrize(
    ("order", "why"),
    [
        (replace(START, injector="sh"), "injector 'sh'"),
        (replace(START, writer=writer(address="--out_json_file=/x")), "address"),
        (replace(START, writer=writer(device="-d")), "device '-d'"),
        (replace(START, writer=writer(device="../../x")), "device"),
        (replace(START, writer=writer(target="t1 : -n 1 /bin/sh -c id")), "node 't1 : -n"),
        (replace(START, writer=writer(origin="o1 --prefix /x")), "node 'o1 --prefix /x'"),
        (replace(START, writer=writer(origin="")), "node ''"),
        (replace(START, writer=writer(target="t1,t2")), "node 't1,t2'"),
        (replace(START, writer=writer(options=("--out_json_file=/x",))), "option '--out_json"),
        (replace(START, writer=writer(options=("-R", "--mmap", "/x"))), "option '--mmap'"),
        (replace(START, writer=writer(options=("--payload_file_path=/x",))), "option '--payload"),
        (replace(MAKE_WRITES, injector="sh"), "injector 'sh'"),
        (replace(MAKE_WRITES, targets=[("t1", "10.0.0.1"), ("t2", "-x")]), "address '-x'"),
        (replace(MAKE_WRITES, targets=[("-t1", "10.0.0.1")]), "node '-t1'"),
        (replace(MAKE_WRITES, targets=[("t1", "")]), "address ''"),
        (messages.BeginWatch(["../../../proc"], [], [], []), "device"),
    ],
)
def test_no_other_order_is_done(order, why):
    with pytest.raises(WireError, match="an order that no conductor gives") as refused:
        require_permitted(order)
    assert why in str(refused.value)


def test_no_order_sets_a_variable_or_names_a_file():
    """In earlier versions, orders had such fields: LD_PRELOAD and ~/.bashrc could be given."""
    name, fields = messages.encode(START)
    fields["writer"]["environment"] = [["LD_PRELOAD", "/x.so"]]
    fields["log"] = "/home/user/.bashrc"
    assert messages.decode_order([name, fields]) == START
