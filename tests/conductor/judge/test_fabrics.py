"""Each fabric's byte counter, from made trees of /sys and /proc: what it proves, and what refutes.

`tests/cases/fabrics.py` has a row for each.
"""

from dataclasses import replace

import polars as pl
import pytest

from analysis.effects.verdict import emulation_caveats
from conductor import counters
from conductor.counters import CounterReading
from conductor.judge.judge import judge
from conductor.judge.series import Series
from conductor.judge.series_figures import conditions, counted_bytes, writer_records
from conductor.readings import DeviceSample, DeviceSeries, NodeSeries
from records.acceptance import AcceptanceLimits
from records.machine import devices
from records.sample import DeviceBytes
from tests.cases.fabrics import COUNTED
from tests.conductor.planted import claim
from tests.conductor.sysfs import big_host, write

HEADINGS = "Inter-| Receive | Transmit\n face |bytes packets errs"
GB = 10**9
WINDOW = (0.0, 1.0)
_IB = "sys/class/infiniband"


@pytest.fixture(params=COUNTED)
def fabric(request):
    return COUNTED[request.param]


def read(root, fabric, received, sent=0):
    """Both readings of the device while its counters show these numbers."""
    stamp = "@1763931300.000000042" if fabric.device.startswith("cxi") else ""
    files = {fabric.received: f"{received}{stamp}", fabric.sent: f"{sent}{stamp}"}
    if fabric.device == "eth1":
        line = f"  eth1: {received} 9 0 0 0 0 0 0 {sent} 9 0 0 0 0 0 0"
        files = {"proc/net/dev": f"{HEADINGS}\n    lo: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n{line}"}
    write(root, {**files, **fabric.others})
    if fabric.driver:
        link = root / _IB / fabric.device / "device/driver"
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(f"../../../bus/pci/drivers/{fabric.driver}")
    first, second = (
        counters.read(fabric.device, direction, root) for direction in counters.DIRECTIONS
    )
    return first, second


def target(root, fabric, before, after):
    """A target whose device shows numbers received and sent before, and these after a second."""
    readings = [read(root, fabric, *numbers) for numbers in (before, after)]
    samples = [
        DeviceSample(at_s, *(one.bytes_b for one in reading))
        for at_s, reading in enumerate(readings, 7)
    ]
    return NodeSeries(
        node="n1", devices=[DeviceSeries(fabric.device, readings[0][0].name, samples)]
    )


def judged(root, fabric, before, after):
    """Proof of a writer that claims a GB, and why the count refutes it."""
    series = Series(nodes=[target(root, fabric, (before,), (after,))], claims=[claim(GB)])
    judgement = judge(series, WINDOW, AcceptanceLimits())
    (proven,) = judgement.writers
    return proven.proof, next(iter(judgement.reasons), None)


def test_numbers_in_the_devices_unit_prove_the_writes(tmp_path, fabric):
    # 3 % more than the payload: headers. The numbers before are beyond 32 bits.
    after = 7 * 10**9 + fabric.per_gb * 103 // 100
    assert judged(tmp_path, fabric, 7 * 10**9, after) == ("device", None)
    here = target(tmp_path, fabric, (7 * 10**9,), (after,))
    assert counted_bytes(here, "received")[:3] == (fabric.name, 1_030_000_000, 1.0)


@pytest.mark.parametrize(("times", "counted_mb"), [(0.25, "250.0"), (4, "4000.0"), (0, "0.0")])
def test_a_wrong_unit_and_a_dead_counter_refute_the_claim(tmp_path, fabric, times, counted_mb):
    """A quarter or four times as much, as words taken for bytes or bytes for words are."""
    _, fault = judged(tmp_path, fabric, 5000, 5000 + int(fabric.per_gb * times))
    assert fault.startswith(f"n1 counted {counted_mb} MB ({fabric.name}), but")


def test_a_counter_of_32_bits_that_began_anew_proves_nothing(tmp_path, fabric):
    before = 4_294_000_000  # 967,296 below 2^32
    after = before + fabric.per_gb - 2**32
    assert judged(tmp_path, fabric, before, after) == ("unproven", None)


def test_rails_have_their_bytes_in_both_directions(tmp_path, fabric):
    after = (100 + fabric.per_gb, 200 + fabric.per_gb // 4)
    here = target(tmp_path, fabric, (100, 200), after)
    assert conditions(here).devices == [DeviceBytes(fabric.device, GB, GB // 4)]


@pytest.mark.parametrize("number", ["N/A", "", "12 13", "1e9", "12@", "12@x.000000001"])
def test_what_is_no_number_is_no_counter(tmp_path, number):
    write(tmp_path, {COUNTED["Slingshot"].received: number})
    assert counters.read("cxi1", "received", tmp_path) is None


def test_the_driver_tells_the_fabric_not_the_name(tmp_path):
    # Rules of udev rename devices: what is called mlx5_0 here is an Omni-Path device.
    renamed = replace(COUNTED["InfiniBand"], driver="hfi1")
    received, sent = read(tmp_path, renamed, 1000, 10)
    assert (received.name, received.bytes_b, sent.bytes_b) == ("opa:mlx5_0/1", 8000, 80)
    assert devices.transport("mlx5_0", tmp_path / "sys") == "Omni-Path"
    # Of other drivers it is not known whether rx_bytes are those of RDMA.
    assert read(tmp_path, replace(COUNTED["EFA"], driver="mana"), 1000) == (None, None)


@pytest.mark.parametrize("fabric", ["EFA", "Omni-Path", "Omni-Path, hfi2"])
def test_the_name_tells_it_where_no_driver_is_shown(tmp_path, fabric):
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


def test_a_counter_at_its_greatest_value_tells_nothing_more(root):
    write(root, {"sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data": str(2**32 - 1)})
    now = counters.read("mlx5_0", "received", root)
    assert now == CounterReading("rdma:mlx5_0/1", None)
    assert counters.bytes_between(CounterReading("rdma:mlx5_0/1", 10000), now) is None
    with pytest.raises(ValueError, match="net:a and rdma:mlx5_0/1 are different counters"):
        counters.bytes_between(CounterReading("net:a", 10000), now)


def test_a_device_that_is_not_named_is_the_first_one(root, tmp_path):
    assert devices.transport(None, root / "sys") == "InfiniBand"
    assert devices.transport("mlx5_0", tmp_path / "empty") == "RDMA"


# What is special of a fabric.


def driven(root, name, driver, **files):
    """An RDMA device of a PCI device with this driver."""
    device = f"{_IB}/{name}"
    write(root, {f"{device}/{file.replace('__', '/')}": text for file, text in files.items()})
    (root / device / "device").mkdir(parents=True, exist_ok=True)
    (root / device / "device/driver").symlink_to(f"../../../bus/pci/drivers/{driver}")
    return root


#: irdma's counters of both versions of IP, in and out.
_OCTETS = {
    f"hw_counters__ip{version}{way}Octets": str(octets)
    for version, way, octets in ((4, "In", 700), (6, "In", 41), (4, "Out", 30), (6, "Out", 5))
}


@pytest.mark.parametrize("prefix", ["ports__1__", ""])  # kernels from 5.15, and older ones
@pytest.mark.parametrize(("node_type", "transport"), [("4: RNIC", "iWARP"), ("1: CA", "RoCE")])
@pytest.mark.parametrize("driver", ["irdma", "ice"])
def test_irdma_counts_octets_of_both_versions_of_ip(tmp_path, prefix, node_type, transport, driver):
    counted = {f"{prefix}{name}": text for name, text in _OCTETS.items()}
    root = driven(
        tmp_path,
        "rocep3s0f0",
        driver,
        **{"node_type": node_type, "ports__1__link_layer": "Ethernet", **counted},
    )
    assert devices.transport("rocep3s0f0", root / "sys") == transport
    readings = [counters.read("rocep3s0f0", direction, root) for direction in counters.DIRECTIONS]
    assert readings == [
        CounterReading("irdma:rocep3s0f0/1", 741),
        CounterReading("irdma:rocep3s0f0/1", 35),
    ]


def test_a_device_of_chelsio_counts_at_its_ports_interface(tmp_path):
    interfaces = {f"device__net__eth{port + 1}__dev_port": str(port) for port in (0, 1)}
    root = driven(tmp_path, "cxgb4_0", "cxgb4", node_type="4: RNIC", **interfaces)
    write(root, {"proc/net/dev": f"{HEADINGS}\n  eth2: 7 9 0 0 0 0 0 0 5 9 0 0 0 0 0 0"})
    assert devices.transport("cxgb4_0", root / "sys") == "iWARP"
    assert counters.read("cxgb4_0:2", "received", root) == CounterReading("net:eth2", 7)
    assert counters.read("cxgb4_0", "received", root) is None
    assert counters.why_no_count("cxgb4_0", root) == "net/dev: no eth1"
    # Of other drivers, interfaces do not count what RDMA passes.
    driven(root, "mlx5_9", "mlx5_core", device__net__eth2__dev_port="0")
    assert counters.read("mlx5_9", "received", root) is None


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "counters/port_rcv_data: missing; hw_counters/rx_bytes: missing"),
        (
            {"ports__1__counters__port_rcv_data": "N/A (no PMA)"},
            "counters/port_rcv_data: N/A (no PMA); hw_counters/rx_bytes: missing",
        ),
    ],
)
def test_why_nothing_counts_is_said_by_the_files(tmp_path, files, why):
    about = {"ports__1__link_layer": "Ethernet", **files}
    root = driven(tmp_path, "bnxt_re0", "bnxt_re", **about)
    assert counters.read("bnxt_re0", "received", root) is None
    assert counters.why_no_count("bnxt_re0", root) == why


def test_a_counter_that_the_kernel_refuses_is_none_in_its_words(tmp_path):
    root = driven(tmp_path, "mlx5_0", "mlx5_core", ports__1__link_layer="InfiniBand")
    (root / _IB / "mlx5_0/ports/1/counters/port_rcv_data").mkdir(parents=True)
    assert counters.why_no_count("mlx5_0", root) == "counters/port_rcv_data: Is a directory"


@pytest.mark.parametrize(
    ("written_b", "transport"),
    [(GB, "EFA"), (750_000_000, "EFA"), (740_000_000, "EFA, emulated"), (0, "EFA, emulated")],
)
def test_writes_of_efa_are_one_sided_if_the_target_counted_them_as_such(
    tmp_path, written_b, transport
):
    """A GB is claimed and received; of it so much by RDMA writes."""
    files = {"rx_bytes": GB, "tx_bytes": 0, "rdma_write_recv_bytes": written_b}
    samples = []
    for at_s, share in enumerate((0, 1)):
        counted = {f"ports__1__hw_counters__{name}": f"{share * n}" for name, n in files.items()}
        root = driven(tmp_path / str(at_s), "rdmap0s6", "efa", **counted)
        received, sent = (
            counters.read("rdmap0s6", direction, root) for direction in counters.DIRECTIONS
        )
        one_sided = counters.read_one_sided("rdmap0s6", "received", root)
        samples.append(DeviceSample(at_s, received.bytes_b, sent.bytes_b, one_sided))
    node = NodeSeries(node="n1", devices=[DeviceSeries("rdmap0s6", "efa:rdmap0s6/1", samples)])
    claimed = replace(claim(GB), transport="EFA")
    (record,) = writer_records(Series(nodes=[node], claims=[claimed]), WINDOW)
    assert (record.transport, record.proof) == (transport, "device")
    assert bool(emulation_caveats(pl.Series([record.transport]))) == ("emulated" in transport)


def test_writes_of_efa_that_no_device_counted_are_taken_as_emulated():
    claimed = replace(claim(GB), transport="EFA")
    (record,) = writer_records(Series(nodes=[NodeSeries(node="n1")], claims=[claimed]), WINDOW)
    assert (record.transport, record.proof) == ("EFA, emulated", "unproven")


def test_other_fabrics_have_no_counter_of_one_sided_writes(root):
    assert counters.read_one_sided("mlx5_0", "received", root) is None
    assert counters.read_one_sided("eth1", "received", root) is None
