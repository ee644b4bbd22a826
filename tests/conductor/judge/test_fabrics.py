"""Byte counters of each fabric, in made trees of /sys and /proc.

They prove or refute how many bytes a writer claims to have written. `tests/cases/fabrics.py` has a
row for each fabric.
"""

from dataclasses import replace

import polars as pl
import pytest

from analysis.effects.verdict import emulation_caveats
from conductor import counters
from conductor.counters import CounterReading
from conductor.judge.judge import judge
from conductor.judge.series import Series
from conductor.judge.series_figures import counted_bytes, node_conditions, writer_records
from conductor.readings import DeviceSample, DeviceSeries, NodeSeries
from records.acceptance import AcceptanceLimits
from records.machine import devices
from records.sample import DeviceBytes
from tests.cases.fabrics import COUNTED
from tests.conductor.made_series import claim, reasons
from tests.conductor.sysfs import big_host, set_driver, write

HEADINGS = "Inter-| Receive | Transmit\n face |bytes packets errs"
GB = 10**9
WINDOW = (0.0, 1.0)
EFA_CLAIM = replace(claim(GB), transport="EFA")
_IB = "sys/class/infiniband"


@pytest.fixture(params=COUNTED)
def fabric(request):
    return COUNTED[request.param]


def read(root, fabric, received, sent=0):
    """Return the readings of received and sent bytes of the fabric's device.

    `received` and `sent` are the numbers in its counters, in the unit of the fabric.
    """
    stamp = "@1763931300.000000042" if fabric.device.startswith("cxi") else ""
    files = {fabric.received: f"{received}{stamp}", fabric.sent: f"{sent}{stamp}"}
    if fabric.device == "eth1":
        line = f"  eth1: {received} 9 0 0 0 0 0 0 {sent} 9 0 0 0 0 0 0"
        files = {"proc/net/dev": f"{HEADINGS}\n    lo: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n{line}"}
    write(root, {**files, **fabric.others})
    if fabric.driver:
        set_driver(root / _IB / fabric.device / "device", fabric.driver)
    return read_both(fabric.device, root)


def read_both(device, root):
    """Return the readings of the bytes that a device has received and sent."""
    return tuple(counters.read(device, direction, root) for direction in counters.DIRECTIONS)


def target(root, fabric, received, sent=(0, 0)):
    """Return the series of a target that reads its device twice, a second apart.

    `received` and `sent` have the numbers of the first and the last reading.
    """
    samples = []
    for at_s, received_number, sent_number in zip((7, 8), received, sent, strict=True):
        received_now, sent_now = read(root, fabric, received_number, sent_number)
        samples.append(DeviceSample(at_s, received_now.bytes_b, sent_now.bytes_b))
    return NodeSeries(node="n1", devices=[DeviceSeries(fabric.device, received_now.name, samples)])


def proof_and_refutation(root, fabric, first, last):
    """Return the proof of a writer that claims a GB, and why the count refutes it, if it does."""
    series = Series(nodes=[target(root, fabric, (first, last))], claims=[claim(GB)])
    judgement = judge(series, WINDOW, AcceptanceLimits())
    (writer,) = judgement.writers
    return writer.proof, next(iter(judgement.reasons), None)


def test_numbers_in_the_devices_unit_prove_the_writes(tmp_path, fabric):
    """The first number needs more than 32 bits. The increase is 3 % above the payload: headers."""
    first = 7 * 10**9
    last = first + fabric.per_gb * 103 // 100
    assert proof_and_refutation(tmp_path, fabric, first, last) == ("device", None)
    count = counted_bytes(target(tmp_path, fabric, (first, last)), "received")
    assert (count.counter, count.bytes_b, count.over_s) == (fabric.name, 1_030_000_000, 1.0)


@pytest.mark.parametrize(("times", "counted_mb"), [(0.25, "250.0"), (4, "4000.0"), (0, "0.0")])
def test_a_wrong_unit_and_a_dead_counter_refute_the_claim(tmp_path, fabric, times, counted_mb):
    """If words of four bytes are taken for bytes, the count is a quarter of the bytes.

    If bytes are taken for words, it is four times the bytes.
    """
    last = 5000 + int(fabric.per_gb * times)
    _, refutation = proof_and_refutation(tmp_path, fabric, 5000, last)
    assert refutation.startswith("n1 ")
    assert f" {counted_mb} MB ({fabric.name})" in refutation


def test_a_counter_of_32_bits_that_began_anew_proves_nothing(tmp_path, fabric):
    first = 4_294_000_000  # 967,296 less than 2^32
    last = first + fabric.per_gb - 2**32
    assert proof_and_refutation(tmp_path, fabric, first, last) == ("unproven", None)


def test_bytes_of_a_device_are_recorded_in_both_directions(tmp_path, fabric):
    received = (100, 100 + fabric.per_gb)
    sent = (200, 200 + fabric.per_gb // 4)
    node = target(tmp_path, fabric, received, sent)
    assert node_conditions(node).devices == [DeviceBytes(fabric.device, GB, GB // 4)]


@pytest.mark.parametrize("number", ["N/A", "", "12 13", "1e9", "12@", "12@x.000000001"])
def test_a_file_without_a_number_is_not_used_as_a_counter(tmp_path, number):
    write(tmp_path, {COUNTED["Slingshot"].received: number})
    assert counters.read("cxi1", "received", tmp_path) is None


def test_the_driver_tells_the_fabric_not_the_name(tmp_path):
    """Rules of udev rename devices: this Omni-Path device has the name of an InfiniBand one."""
    renamed = replace(COUNTED["InfiniBand"], driver="hfi1")
    received, sent = read(tmp_path, renamed, 1000, 10)
    assert (received.name, received.bytes_b, sent.bytes_b) == ("opa:mlx5_0/1", 8000, 80)
    assert devices.transport("mlx5_0", tmp_path / "sys") == "Omni-Path"


def test_rx_bytes_of_an_unknown_driver_are_not_read(tmp_path):
    """They may not be the bytes that RDMA has received."""
    assert read(tmp_path, replace(COUNTED["EFA"], driver="qede"), 1000) == (None, None)


@pytest.mark.parametrize("fabric", ["EFA", "Omni-Path", "Omni-Path, hfi2"])
def test_the_name_tells_the_fabric_if_the_driver_is_unknown(tmp_path, fabric):
    row = COUNTED[fabric]
    received, _ = read(tmp_path, replace(row, driver=None), 1000)
    assert received.name == row.name


@pytest.fixture
def root(tmp_path):
    return big_host(tmp_path)


def test_soft_roce_counts_packets_only_so_its_interface_is_read(root):
    assert counters.read("rxe0", "received", root) == CounterReading("net:eth1", 123456)
    assert counters.read("rxe0", "sent", root) == CounterReading("net:eth1", 99)
    for absent in (None, "mlx5_9"):
        assert counters.read(absent, "received", root) is None


def test_a_counter_at_its_greatest_value_gives_no_bytes(root):
    write(root, {"sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data": str(2**32 - 1)})
    now = counters.read("mlx5_0", "received", root)
    assert now == CounterReading("rdma:mlx5_0/1", None)
    assert counters.bytes_between(CounterReading("rdma:mlx5_0/1", 10000), now) is None


def test_a_counter_that_was_set_back_has_no_bytes_between_its_readings():
    earlier, later = CounterReading("net:a", 10000), CounterReading("net:a", 9999)
    assert counters.bytes_between(earlier, later) is None
    assert counters.bytes_between(later, earlier) == 1


def test_readings_of_different_counters_have_no_bytes_between_them():
    earlier, later = CounterReading("net:a", 10000), CounterReading("rdma:mlx5_0/1", 20000)
    with pytest.raises(ValueError, match=r"net:a .*rdma:mlx5_0/1 "):
        counters.bytes_between(earlier, later)


def test_a_device_that_is_not_named_is_the_first_one(root, tmp_path):
    assert devices.transport(None, root / "sys") == "InfiniBand"
    assert devices.transport("mlx5_0", tmp_path / "empty") == "RDMA"


# Features of a single fabric.


def driven(root, device, driver, files):
    """Make an RDMA device with these files and a link to its driver; return `root`."""
    write(root, {f"{_IB}/{device}/{path}": text for path, text in files.items()})
    set_driver(root / _IB / device / "device", driver)
    return root


# Linux 5.15 has the first folder, earlier versions the second.
@pytest.mark.parametrize("folder", ["ports/1/hw_counters", "hw_counters"])
@pytest.mark.parametrize(("node_type", "transport"), [("4: RNIC", "iWARP"), ("1: CA", "RoCE")])
@pytest.mark.parametrize("driver", ["irdma", "ice"])
def test_irdma_counts_octets_of_both_versions_of_ip(tmp_path, folder, node_type, transport, driver):
    files = {
        "node_type": node_type,
        "ports/1/link_layer": "Ethernet",
        f"{folder}/ip4InOctets": "700",
        f"{folder}/ip6InOctets": "41",
        f"{folder}/ip4OutOctets": "30",
        f"{folder}/ip6OutOctets": "5",
    }
    root = driven(tmp_path, "rocep3s0f0", driver, files)
    assert devices.transport("rocep3s0f0", root / "sys") == transport
    assert read_both("rocep3s0f0", root) == (
        CounterReading("irdma:rocep3s0f0/1", 741),
        CounterReading("irdma:rocep3s0f0/1", 35),
    )


def test_bytes_of_a_device_of_chelsio_are_counted_at_the_interface_of_its_port(tmp_path):
    """Port 1 has the interface `eth1`, which is not in /proc/net/dev. Port 2 has `eth2`."""
    files = {
        "node_type": "4: RNIC",
        "device/net/eth1/dev_port": "0",
        "device/net/eth2/dev_port": "1",
    }
    root = driven(tmp_path, "cxgb4_0", "cxgb4", files)
    write(root, {"proc/net/dev": f"{HEADINGS}\n  eth2: 7 9 0 0 0 0 0 0 5 9 0 0 0 0 0 0"})
    assert devices.transport("cxgb4_0", root / "sys") == "iWARP"
    assert counters.read("cxgb4_0:2", "received", root) == CounterReading("net:eth2", 7)
    assert counters.read("cxgb4_0", "received", root) is None
    assert counters.why_no_count("cxgb4_0", root) == "net/dev: no eth1"


def test_an_interface_of_another_driver_does_not_count_what_rdma_passes(tmp_path):
    root = driven(tmp_path, "mlx5_9", "mlx5_core", {"device/net/eth2/dev_port": "0"})
    write(root, {"proc/net/dev": f"{HEADINGS}\n  eth2: 7 9 0 0 0 0 0 0 5 9 0 0 0 0 0 0"})
    assert counters.read("mlx5_9", "received", root) is None


def test_the_slowest_counter_of_the_devices_decides_how_long_runs_must_be(tmp_path):
    """The counters of bnxt_re are updated once a second: update_period_ms in bnxt_re/main.c."""
    for name in ("InfiniBand", "RoCE, Broadcom"):
        read(tmp_path, COUNTED[name], 1000)
    names = ["mlx5_0", "bnxt_re0", "eth9"]
    assert [counters.slowest_period_s(names[:n], tmp_path) for n in (0, 1, 3)] == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "counters/port_rcv_data: missing; hw_counters/rx_bytes: missing"),
        (
            {"ports/1/counters/port_rcv_data": "N/A (no PMA)"},
            "counters/port_rcv_data: N/A (no PMA); hw_counters/rx_bytes: missing",
        ),
    ],
)
def test_why_nothing_is_counted_names_files_with_their_contents(tmp_path, files, why):
    files = {"ports/1/link_layer": "Ethernet", **files}
    root = driven(tmp_path, "bnxt_re0", "bnxt_re", files)
    assert counters.read("bnxt_re0", "received", root) is None
    assert counters.why_no_count("bnxt_re0", root) == why


def test_a_counter_that_the_kernel_refuses_is_named_with_its_error(tmp_path):
    root = driven(tmp_path, "mlx5_0", "mlx5_core", {"ports/1/link_layer": "InfiniBand"})
    (root / _IB / "mlx5_0/ports/1/counters/port_rcv_data").mkdir(parents=True)
    assert counters.why_no_count("mlx5_0", root) == "counters/port_rcv_data: Is a directory"


@pytest.mark.parametrize(
    ("written_b", "transport"),
    [(GB, "EFA"), (750_000_000, "EFA"), (740_000_000, "EFA, emulated"), (0, "EFA, emulated")],
)
def test_writes_of_efa_are_one_sided_if_the_target_counted_them_as_such(
    tmp_path, written_b, transport
):
    """1 GB is claimed and received. `written_b` of these bytes were received by RDMA writes."""
    samples = []
    for at_s, received_b, one_sided_b in ((0, 0, 0), (1, GB, written_b)):
        files = {
            "ports/1/hw_counters/rx_bytes": f"{received_b}",
            "ports/1/hw_counters/tx_bytes": "0",
            "ports/1/hw_counters/rdma_write_recv_bytes": f"{one_sided_b}",
        }
        root = driven(tmp_path / str(at_s), "rdmap0s6", "efa", files)
        received, sent = read_both("rdmap0s6", root)
        one_sided = counters.read_one_sided("rdmap0s6", "received", root)
        samples.append(DeviceSample(at_s, received.bytes_b, sent.bytes_b, one_sided))
    node = NodeSeries(node="n1", devices=[DeviceSeries("rdmap0s6", "efa:rdmap0s6/1", samples)])
    (record,) = writer_records(Series(nodes=[node], claims=[EFA_CLAIM]), WINDOW)
    assert (record.transport, record.proof) == (transport, "device")
    assert bool(emulation_caveats(pl.Series([record.transport]))) == ("emulated" in transport)


@pytest.mark.parametrize(("read_b", "transport"), [(GB, "EFA"), (0, "EFA, emulated")])
def test_reads_of_efa_are_one_sided_if_the_target_answered_them_as_such(read_b, transport):
    """1 GB is claimed and sent. The target also received 1 GB by RDMA writes of other programs."""
    samples = [DeviceSample(0, 0, 0, 0, 0), DeviceSample(1, GB, GB, GB, read_b)]
    node = NodeSeries(node="n1", devices=[DeviceSeries("rdmap0s6", "efa:rdmap0s6/1", samples)])
    reader = replace(EFA_CLAIM, direction="read")
    (record,) = writer_records(Series(nodes=[node], claims=[reader]), WINDOW)
    assert record.transport == transport


def test_writes_to_several_targets_of_efa_are_compared_with_the_count_of_each():
    samples = [DeviceSample(0, 0, 0, 0, 0), DeviceSample(1, GB, 0, GB, 0)]
    names = ["n1", "n2"]
    device = DeviceSeries("rdmap0s6", "efa:rdmap0s6/1", samples)
    nodes = [NodeSeries(node=name, devices=[device]) for name in names]
    claims = [replace(EFA_CLAIM, target=name) for name in names]
    records = writer_records(Series(nodes=nodes, claims=claims), WINDOW)
    assert [record.transport for record in records] == ["EFA", "EFA"]


def test_writes_of_efa_that_no_device_counted_are_taken_as_emulated():
    (record,) = writer_records(Series(nodes=[NodeSeries(node="n1")], claims=[EFA_CLAIM]), WINDOW)
    assert (record.transport, record.proof) == ("EFA, emulated", "unproven")


@pytest.mark.parametrize(("transport", "rejected"), [("EFA", True), ("RoCE", False)])
def test_a_run_is_rejected_if_the_counter_that_tells_its_transport_was_set_back(
    transport, rejected
):
    """The device counted 3 GB before the run, and 1 GB after it: its driver was loaded anew."""
    samples = [DeviceSample(0, 3 * GB, 0, 3 * GB, 0), DeviceSample(1, GB, 0, GB, 0)]
    node = NodeSeries(node="n1", devices=[DeviceSeries("rdmap0s6", "efa:rdmap0s6/1", samples)])
    written = replace(EFA_CLAIM, transport=transport)
    lines = reasons(Series(nodes=[node], claims=[written]), WINDOW)
    assert lines == (["n1: the byte counter of rdmap0s6 was set back"] if rejected else [])


def test_other_fabrics_have_no_counter_of_one_sided_writes(root):
    assert counters.read_one_sided("mlx5_0", "received", root) is None
    assert counters.read_one_sided("eth1", "received", root) is None
