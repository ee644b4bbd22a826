"""Tests nodes of each fabric, which are made of files of /sys.

They test which fabric is detected, and what init, doctor and the writers do on such a node. Right
results are worked out by hand. `tests/cases/fabrics.py` has a row for each node.
"""

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conductor import counters
from conductor.injectors import INJECTORS
from conductor.wire import INTERFACE_VARIABLE
from nimc.cluster import in_job, node_inspection
from nimc.cluster.in_job import JobInspection
from records.errors import InputError
from records.machine import devices, fabrics
from records.machine.devices import Device
from reframe_tests.planning import CaseRequest, treatments
from tests.cases.fabrics import BONDED, BROADCOM, NODES, Node
from tests.cases.shared_hosts import case_text
from tests.conductor.injectors import printed
from tests.conductor.sysfs import set_driver, write
from tests.nimc.cluster import made
from tests.records.machine.made import machine

_IB = "sys/class/infiniband"


def host_of(text: str, root: Path) -> Path:
    """Write the files of a host below `root`, and return it.

    Lines are `PATH: CONTENT` for a file, and `PATH -> driver NAME` for the link to a driver.
    """
    for line in text.splitlines():
        path, _, driver = line.partition(" -> driver ")
        if driver:
            set_driver(root / path, driver)
        elif not line.startswith("#"):
            write(root, dict([line.split(": ", 1)]))
    return root


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return a function that makes detection see files instead of this host's devices."""

    def make(text: str) -> list[Device]:
        sys = host_of(text, tmp_path) / "sys"
        for function in (devices.resolve, devices.is_rdma, devices.transport, devices.fabric):
            monkeypatch.setattr(function, "__defaults__", (sys,))
        monkeypatch.setattr(devices.gid_index, "__defaults__", (None, sys))
        return devices.detect(sys)

    return make


def inspection_of(rdma: list[Device], **changes: Any) -> JobInspection:
    """Return an inspection of two nodes that are alike."""
    ready = dict.fromkeys(INJECTORS)
    nodes = [made.node(name, rdma, injector_faults=ready, **changes) for name in ("a", "b")]
    return JobInspection(job="7", why=None, nodes=nodes)


@pytest.mark.parametrize("node", NODES, ids=[node.case for node in NODES])
def test_init_takes_device_injector_and_options_by_the_fabric(
    node: Node, here: Any, tmp_path: Path
) -> None:
    rdma = here(node.text or case_text(node.case))
    assert {device.transport for device in rdma} == {node.transport}
    assert rdma[0].ports[0].rate_b_s == node.rate_b_s
    text, box = made.init_says(inspection_of(rdma), tmp_path)
    assert (box.device, box.injector) == (node.device, node.injector)
    assert f"{node.transport} on all nodes, where {node.injector} " in text
    assert ("make -B -C conductor/mpi_put" in text) == (node.injector == "mpi_put")
    if node.rate_b_s is None:
        assert "reports no rate of its own" in text
    else:
        assert f"link_rate: {node.rate_b_s * 8 / 1e9:g}Gbit/s" in text
    injector, row = INJECTORS["perftest"], fabrics.FABRICS[node.transport]
    writer = printed.writer(device=node.device)
    if node.options is None:
        why = f"perftest cannot write over {node.transport}: mpi_put can"
        assert injector.why_not_over(row) == why
    else:
        assert injector.why_not_over(row) is None
        assert injector.options(writer) == node.options


def test_four_devices_of_slingshot_are_rails_with_their_numa_nodes(
    here: Any, tmp_path: Path
) -> None:
    _, box = made.init_says(inspection_of(here(case_text("slingshot_four_cxi"))), tmp_path)
    rails = [(rail.device, rail.numa_node) for rail in box.rails]
    assert rails == [("cxi0", 0), ("cxi1", 1), ("cxi2", 2), ("cxi3", 3)]
    assert box.facts
    assert box.facts.nic_node == 0


@pytest.mark.parametrize(
    ("state", "speed", "rate_b_s"), [("up", "CK_400G", 50e9), ("down", "", None), ("up", "?", None)]
)
def test_a_port_of_slingshot_has_state_and_rate(
    here: Any, state: str, speed: str, rate_b_s: float | None
) -> None:
    about = "sys/class/cxi/cxi0/device/properties"
    (device,) = here(f"{about}/link_state: {state}\n{about}/speed: {speed}")
    ((number, shown, layer, rate),) = [vars(port).values() for port in device.ports]
    assert (shown, layer, rate) == ({"up": "ACTIVE"}.get(state, "DOWN"), "Slingshot", rate_b_s)
    assert number == 1


@pytest.mark.parametrize(
    ("change", "rate_b_s"),
    [
        (("400000", "-1"), 25e9),  # the bond has no rate, since no port can send
        (("400000", ""), 25e9),
        (("sys/class/net/bond0/bonding", "sys/class/net/bond0/bridge"), 25e9),
        (("ndevs/0: bond0", "ndevs/0: eth0"), 25e9),
        (("400000", "100000"), 12.5e9),  # one of the ports is down
    ],
)
def test_a_bonded_device_has_the_rate_of_the_ports_that_can_send(
    here: Any, change: tuple[str, str], rate_b_s: float
) -> None:
    (device,) = here(BONDED.replace(*change))
    assert device.ports[0].rate_b_s == rate_b_s


def test_each_of_two_devices_of_a_bond_has_its_own_rate(here: Any) -> None:
    """The hardware joins no links of two adapters, but GIDs of both name the bond."""
    devices = here(BONDED + BONDED.replace("mlx5_bond_0", "mlx5_1"))
    assert [device.ports[0].rate_b_s for device in devices] == [25e9, 25e9]


@pytest.mark.parametrize(
    ("states", "transport"),
    [
        (("4: ACTIVE", "1: DOWN"), "InfiniBand"),
        (("1: DOWN", "4: ACTIVE"), "RoCE"),
        (("1: DOWN", "1: DOWN"), "RoCE"),
    ],
)
def test_the_active_port_tells_the_fabric_of_a_device_with_two_link_layers(
    here: Any, states: tuple[str, str], transport: str
) -> None:
    """ConnectX-3 (mlx4) has one device for two ports; here, the second is set to Ethernet (VPI)."""
    layers = ("InfiniBand", "Ethernet")
    ports = "".join(
        f"{_IB}/mlx4_0/ports/{number}/state: {state}\n"
        f"{_IB}/mlx4_0/ports/{number}/link_layer: {layer}\n"
        for number, (state, layer) in enumerate(zip(states, layers, strict=True), start=1)
    )
    (device,) = here(f"{ports}{_IB}/mlx4_0/device -> driver mlx4_core\n")
    assert device.transport == transport


# Indexes of GIDs, the addresses that RoCE uses.


def gid(index: int, kind: str, address: str, interface: str) -> str:
    port = f"{_IB}/mlx5_0/ports/1"
    files = {"gid_attrs/types": kind, "gids": address, "gid_attrs/ndevs": interface}
    return "".join(f"{port}/{name}/{index}: {text}\n" for name, text in files.items())


V1, V2 = "IB/RoCE v1", "RoCE v2"
LINK, GLOBAL = "fe80:0000:0000:0000:506b:4bff:fe00:0001", "2001:0db8:0000:0000:0000:0000:0000:0001"
FIRST, SECOND = (f"0000:0000:0000:0000:0000:ffff:0a0{n}:0001" for n in (1, 2))
#: Type, address and interface of each GID, as a kernel lists them. The first five are of the
#: interface, the next two of a VLAN on it; the last entry is not used.
GIDS = [
    (V1, LINK, "eth2"),
    (V2, LINK, "eth2"),
    (V1, FIRST, "eth2"),
    (V2, GLOBAL, "eth2"),
    (V2, FIRST, "eth2"),
    (V1, SECOND, "eth2.100"),
    (V2, SECOND, "eth2.100"),
    ("", "", ""),
]
ROCE = f"{_IB}/mlx5_0/ports/1/link_layer: Ethernet\n"


@pytest.mark.parametrize(
    ("interface", "without", "index"),
    [
        (None, [], 4),
        ("eth2", [], 4),
        ("eth2.100", [], 6),
        ("ib0", [], 4),  # agents connect over another network
        ("eth2", [FIRST], 3),
        ("eth2", [FIRST, GLOBAL], 1),
        ("eth2", [FIRST, GLOBAL, LINK], 6),
        (None, [FIRST, SECOND, GLOBAL, LINK], None),
    ],
)
def test_the_gid_of_version_2_that_fits_the_interface_is_passed(
    here: Any, monkeypatch: pytest.MonkeyPatch, interface: str | None, without: list[str],
    index: int | None,
) -> None:  # fmt: skip
    here(ROCE + "".join(gid(i, *row) for i, row in enumerate(GIDS) if row[1] not in without))
    assert devices.gid_index("mlx5_0", interface) == index
    monkeypatch.setattr(os, "environ", {INTERFACE_VARIABLE: interface} if interface else {})
    writer = printed.writer(device="mlx5_0")
    perftest = INJECTORS["perftest"]
    words = [] if index is None else ["-x", str(index)]
    variables = {} if index is None else {"UCX_IB_GID_INDEX": str(index)}
    passed = INJECTORS["ucx"].environment(writer)
    assert {key: text for key, text in passed.items() if "GID" in key} == variables
    with monkeypatch.context() as site:
        site.setenv("UCX_IB_GID_INDEX", "3")
        assert "UCX_IB_GID_INDEX" not in INJECTORS["ucx"].environment(writer)
    assert perftest.options(writer) == words
    for command in (perftest.target_command(writer), perftest.origin_command(writer)):
        assert command
        assert f" {' '.join(['-d', 'mlx5_0', *words])} " in f" {' '.join(command)} "


def test_ucx_connects_over_soft_roce_with_a_gid_of_ipv6(here: Any) -> None:
    text = "".join(gid(index, V2, address, "eth0") for index, address in enumerate((LINK, FIRST)))
    here((ROCE + text).replace("mlx5_0", "rxe0") + f"{_IB}/rxe0/parent: eth0\n")
    writer = printed.writer(device="rxe0")
    assert INJECTORS["ucx"].environment(writer)["UCX_IB_GID_INDEX"] == "0"
    assert INJECTORS["perftest"].options(writer) == ["-x", "1"]


@pytest.mark.parametrize(
    ("given_options", "passed"),
    [
        (("--tclass=106", "-m", "4096"), ["-x", "4", "--tclass=106", "-m", "4096"]),
        # No index is added if the user gives one, or if the connection manager (-R) finds one.
        (("-x", "3"), ["-x", "3"]),
        (("--gid-index=3",), ["--gid-index=3"]),
        (("-R",), ["-R"]),
    ],
)
def test_options_of_the_site_file_go_to_both_ends(
    here: Any, given_options: tuple[str, ...], passed: list[str]
) -> None:
    here(ROCE + "".join(gid(i, *row) for i, row in enumerate(GIDS)))
    writer = printed.writer(device="mlx5_0", options=given_options)
    assert INJECTORS["perftest"].options(writer) == passed
    words = " ".join(passed)
    assert words in " ".join(INJECTORS["perftest"].target_command(writer) or [])
    assert words in " ".join(INJECTORS["perftest"].origin_command(writer))
    assert INJECTORS["ucx"].options(writer) == []


def test_options_of_the_site_file_are_part_of_the_plan() -> None:
    options = ["--tclass=106", "-R"]
    box = machine("same_job", perftest_options=options, device="mlx5_0")
    writes = [
        treatment.writes
        for treatment in treatments(CaseRequest(["off", "on"]), box)
        if treatment.writes
    ]
    assert [setting.options for setting in writes] == [("--tclass=106", "-R")]
    over_mpi = CaseRequest(["off", "on"], {"injector": "mpi_put"})
    assert [
        treatment.writes.options for treatment in treatments(over_mpi, box) if treatment.writes
    ] == [()]


@pytest.mark.parametrize(
    "option",
    [
        *("--mmap=/dev/x", "--mmap-offset=8", "--cred", "--kek_path"),
        # Those of perftest_parameters.c of later versions; --out_json writes perftest_out.json.
        *("--payload_file_path=/x", "--payload", "--out_json", "--out_json_file=/x"),
    ],
)
def test_options_that_name_a_file_are_refused(option: str) -> None:
    with pytest.raises(ValueError, match=f"{re.escape(repr(option))} found; allowed: "):
        machine("same_job", perftest_options=[option])


def test_the_number_of_outstanding_reads_names_no_file() -> None:
    assert machine("same_job", perftest_options=["--outs=16"]).perftest_options == ["--outs=16"]


@pytest.mark.parametrize(
    "option",
    [
        *("-d", "--size=64", "--output=bandwidth", "-D", "--report_gbits", "-q", "a b", "-e"),
        # getopt_long reads these as -D 5, -s 65536, -d mlx5_1, --duration=5 and --iters=10.
        *("-D5", "-s65536", "-dmlx5_1", "--dur=5", "--it=10"),
        # It reads these as -R -D, and as -x 3, which would be added to the index that is chosen.
        *("-RD", "-x3", "-"),
    ],
)
def test_options_that_nimc_sets_itself_are_refused(option: str) -> None:
    with pytest.raises(ValueError, match=f"{re.escape(repr(option))} found; allowed: "):
        machine("same_job", perftest_options=[option])


# Messages about injectors that cannot write over a fabric, and about counters.


@pytest.mark.parametrize(
    ("device", "injector", "able"),
    [
        ("cxi0", "perftest", "Slingshot; allowed: mpi_put"),
        ("cxi3", "ucx", "Slingshot; allowed: mpi_put"),
        ("rdmap0s6", "ucx", "EFA; allowed: perftest, mpi_put"),
        ("iwp3s0f0", "ucx", "iWARP; allowed: perftest, mpi_put"),
        ("erdma_0", "ucx", "iWARP; allowed: perftest, mpi_put"),
        # Names that rdma_rename.c makes: with a PCI domain, for an onboard device, for a numbered
        # slot, by GUID, and for a virtual function.
        ("rdmaP2p113s0", "ucx", "EFA; allowed: perftest, mpi_put"),
        ("iwo3", "ucx", "iWARP; allowed: perftest, mpi_put"),
        ("iwP1s5f0", "ucx", "iWARP; allowed: perftest, mpi_put"),
        ("iwx525400c0fe123455", "ucx", "iWARP; allowed: perftest, mpi_put"),
        ("iwp1s0f0v2", "ucx", "iWARP; allowed: perftest, mpi_put"),
    ],
)
def test_an_injector_that_cannot_write_over_the_fabric_is_refused_at_planning(
    device: str, injector: str, able: str
) -> None:
    box = machine("same_job", device=device, injector=injector)
    fault = f"injector: {injector} found; device {device} of site/.*.yaml belongs to {able}$"
    with pytest.raises(InputError, match=fault):
        treatments(CaseRequest(["off", "on"]), box)


@pytest.mark.parametrize(
    ("wanted", "state", "detail"),
    [
        ("mlx5_0", "ok", "a, b: rdma:mlx5_0/1 was read"),
        ("mlx5_1", "limited", "a, b: none: counters/port_rcv_data: N/A (no PMA)"),
    ],
)
def test_doctor_reads_the_counter_of_each_device(wanted: str, state: str, detail: str) -> None:
    inspection = inspection_of(
        made.FAST,
        counters={"mlx5_0": "rdma:mlx5_0/1"},
        uncounted={"mlx5_1": "counters/port_rcv_data: N/A (no PMA)"},
    )
    rows = {
        row.what: row for row in in_job.job_findings(inspection, machine("same_job", device=wanted))
    }
    finding = rows[f"counter of {wanted} on nodes"]
    assert (finding.state, finding.detail) == (state, detail)


def test_doctor_names_an_injector_that_cannot_write_over_the_device_of_nodes() -> None:
    omitted = replace(made.FAST[0], name="cxi0", transport="Slingshot")
    box = machine("same_job", device="cxi0", injector="perftest")
    rows = {row.what: row for row in in_job.job_findings(inspection_of([omitted]), box)}
    assert rows["perftest on nodes"].state == "missing"
    assert "perftest cannot write over Slingshot" in rows["perftest on nodes"].detail


def test_an_inspection_of_a_node_reads_the_counters_of_its_devices(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    silent = BROADCOM.replace("bnxt_re0", "bnxt_re1").replace("rx_bytes: 7", "rx_bytes: N/A")
    root = host_of(BROADCOM + silent, tmp_path)
    detected_host = replace(made.HERE, rdma=devices.detect(root / "sys"), interfaces=[])
    monkeypatch.setattr(node_inspection.host, "detect", lambda: detected_host)
    for function in (counters.read, counters.why_no_count):
        monkeypatch.setattr(function, "__defaults__", (root,))
    monkeypatch.setattr("sys.argv", ["node_inspection", str(tmp_path), "bnxt_re0", ""])
    monkeypatch.delenv("SLURM_PROCID", raising=False)
    node_inspection.main()
    record = json.loads((tmp_path / "0.json").read_text())
    assert record["counters"] == {"bnxt_re0": "bnxt:bnxt_re0/1"}
    why = "counters/port_rcv_data: missing; hw_counters/rx_bytes: N/A"
    assert record["uncounted"] == {"bnxt_re1": why}


def test_devices_whose_drivers_count_no_bytes_have_no_counter(tmp_path: Path) -> None:
    """The PCI drivers of hns_roce and qedr are hns3 and qede. With iWARP, qedr has an RNIC.

    hns_roce has no `process_mad`, so the kernel makes no folder `counters`.
    """
    huawei = BROADCOM.replace("bnxt_re0", "hns_0").replace("rx_bytes: 7", "rx_rc_pkt: 7")
    marvell = huawei.replace("hns_0", "qedr0").replace("1: CA", "4: RNIC")
    for text, driver, name, why in (
        (huawei, "hns3", "hns_0", "counters/port_rcv_data: missing"),
        (marvell, "qede", "qedr0", "no counter of its driver is known"),
    ):
        root = host_of(text.replace("bnxt_en", driver), tmp_path)
        assert counters.read(name, "received", root) is None
        assert counters.why_no_count(name, root) == why
