import pytest

from conductor.evidence import counters
from conductor.evidence.counters import Named, Reading, misrouted, named
from records.machine import devices
from records.sample import DeviceBytes, NodeConditions
from records.treatment import Start, Treatment, Writes
from tests.conductor.sysfs import big_host, write


@pytest.fixture
def root(tmp_path):
    return big_host(tmp_path)


def test_soft_roce_counts_packets_only_so_its_interface_is_read(root):
    assert counters.read("rxe0", "received", root) == Reading("net:eth1", 123456)
    assert counters.read("rxe0", "sent", root) == Reading("net:eth1", 99)
    for absent in (None, "mlx5_9"):
        assert counters.read(absent, "received", root) is None


def test_a_counter_at_its_greatest_value_tells_nothing_more(root):
    write(root, {"sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data": str(2**32 - 1)})
    now = counters.read("mlx5_0", "received", root)
    assert now.stuck
    assert counters.difference(Reading("rdma:mlx5_0/1", 10000), now) is None
    with pytest.raises(ValueError, match="net:a and rdma:mlx5_0/1 are different counters"):
        counters.difference(Reading("net:a", 10000), now)


def test_devices_are_counted_together_if_each_of_them_counts():
    first, second = Reading("rdma:a/1", 400, at_s=5.0), Reading("rdma:b/1", 30, at_s=6.0)
    both = counters.total([first, second])
    assert both == Reading("rdma:a/1+rdma:b/1", 430)
    assert both.at_s == 6.0
    assert counters.total([first]) == first
    assert counters.total([]) is None
    assert counters.total([first, None]) is None
    assert counters.total([first, Reading("rdma:b/1", 2**34 - 4, stuck=True)]).stuck


def test_devices_are_identified_by_what_their_bytes_go_over(root, tmp_path):
    infiniband, soft = devices.detect(root / "sys")
    assert (infiniband.transport, soft.transport) == ("InfiniBand", "soft-RoCE")
    assert (infiniband.firmware, infiniband.numa_node) == ("20.31.1014", 2)
    assert infiniband.ports == [devices.Port(1, "ACTIVE", "InfiniBand", 12.5e9)]
    assert soft.numa_node is None
    assert devices.transport(None, root / "sys") == "InfiniBand"  # the first one
    assert devices.transport("mlx5_0", tmp_path / "empty") == "RDMA"


# Bytes of each rail against the policies: sums worked out by hand, in MB.


RAILS = ["mlx5_0", "mlx5_1"]
MB = 1_000_000


def node(name, *mega):
    """Received and sent of each rail, MB."""
    pairs = zip(RAILS, mega, strict=True)
    devices = [DeviceBytes(device, int(r * MB), int(s * MB)) for device, (r, s) in pairs]
    return NodeConditions(name, 1.0, devices=devices)


def only(*devices):
    return Named(frozenset(devices), frozenset(devices))


@pytest.mark.parametrize(
    ("second", "names", "fault"),
    [
        ((1, 0), only("mlx5_0"), None),
        ((2, 0), only("mlx5_0"), None),  # 2 of 100 MB
        ((1.5, 1), only("mlx5_0"), "mlx5_1 passed 2.50 of 100.50 MB of all rails"),
        ((50, 0), only("mlx5_0"), "allowed elsewhere: 2%"),
        ((50, 0), only("mlx5_0", "mlx5_1"), None),
        ((2, 0), only("mlx5_0", "mlx5_1"), "mlx5_1 passed 2.00 of 100.00 MB of all rails"),
        ((1, 0), only("mlx5_1"), "mlx5_0 passed 98.00 of 99.00 MB of all rails"),
        ((50, 0), Named(frozenset(["mlx5_0"]), frozenset(RAILS)), None),
        ((50, 0), only(), None),
    ],
)
def test_bytes_pass_the_devices_that_the_policy_names_and_no_other(second, names, fault):
    found = misrouted([node("n1", (97, 1), second)], names, RAILS, 0.02)
    assert found is None if fault is None else fault in found


def test_the_bytes_of_all_nodes_count_and_each_must_have_a_counter():
    nodes = [node("n1", (10, 0), (3, 0)), node("n2", (0, 190), (0, 0))]
    assert misrouted(nodes, only("mlx5_0"), RAILS, 0.02) is None
    none = misrouted([node("n1", (0, 0), (0, 0))], only("mlx5_0"), RAILS, 0.02)
    assert "mlx5_0 passed 0.00 of 0.00 MB" in none
    found = misrouted([nodes[0], NodeConditions("n2", 1.0)], only("mlx5_0"), RAILS, 0.02)
    assert found == "n2: a rail's byte counter is missing or was set back (mlx5_0, mlx5_1)"


def treatment(writers=None, ranks=None, devices=(), scheduled=None):
    writes = None
    if writers is not None:
        writes = Writes("perftest", 65536, devices=tuple(writers), scheduled=scheduled)
    return Treatment("on", Start(["x"], ranks=ranks, devices=list(devices)), writes)


@pytest.mark.parametrize(
    ("one", "targets", "writers", "required", "allowed"),
    [
        # One writer takes the first of several devices, two take both.
        (treatment(RAILS), 1, 1, {"mlx5_0"}, {"mlx5_0"}),
        (treatment(RAILS), 2, 2, set(RAILS), set(RAILS)),
        (treatment(RAILS, scheduled=2), 2, 2, {"mlx5_0"}, {"mlx5_0"}),
        (treatment(RAILS, scheduled=0), 2, 2, set(), set()),
        # MPI on one node sends nothing over a rail; between two it may choose unless told.
        (treatment(ranks=4, devices=["mlx5_1"]), 1, 1, set(), set()),
        (treatment(ranks=4, devices=["mlx5_1"]), 2, 1, {"mlx5_1"}, {"mlx5_1"}),
        (treatment(ranks=4), 2, 1, set(), set(RAILS)),
        (treatment(["mlx5_0"], 4), 2, 1, {"mlx5_0"}, set(RAILS)),
        (treatment(["mlx5_0"], 4, ["mlx5_1"]), 2, 1, set(RAILS), set(RAILS)),
        (treatment(), 1, 1, set(), set()),
    ],
)
def test_devices_that_a_treatment_names(one, targets, writers, required, allowed):
    assert named(one, RAILS, targets, writers) == (required, allowed)
