"""The right results for each fabric: for counters of devices, and for nodes.

The tests that import these tables compare them with what nimc reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

_IB = "sys/class/infiniband"


@dataclass(frozen=True, kw_only=True)
class Counted:
    """The byte counter of a device.

    `received` and `sent` are its files, `per_gb` is by how much their numbers grow for a GB, and
    `name` is the counter's name in samples.
    """

    device: str
    driver: str | None
    received: str
    sent: str
    per_gb: int
    name: str
    #: Other files of the device: path -> text. Without them, the device would be taken for one of
    #: another fabric.
    others: Mapping[str, str] = field(default_factory=dict)


_CXI = "sys/class/cxi/cxi1/device/telemetry"
#: Name of a fabric in tests -> the counter of a device. Units are from the sources that
#: records/machine/fabrics.py names. Figures are worked out by hand: a GB is 10^9 octets (Slingshot,
#: EFA, Ethernet), 250,000,000 words of 4 bytes (InfiniBand) or 125,000,000 flits of 8 bytes
#: (Omni-Path).
COUNTED = {
    "Slingshot": Counted(
        device="cxi1",
        driver=None,
        received=f"{_CXI}/hni_sts_rx_ok_octets",
        sent=f"{_CXI}/hni_sts_tx_ok_octets",
        per_gb=10**9,
        name="cxi:cxi1",
    ),
    "EFA": Counted(
        device="rdmap0s6",
        driver="efa",
        received=f"{_IB}/rdmap0s6/ports/1/hw_counters/rx_bytes",
        sent=f"{_IB}/rdmap0s6/ports/1/hw_counters/tx_bytes",
        per_gb=10**9,
        name="efa:rdmap0s6/1",
    ),
    "Omni-Path": Counted(
        device="hfi1_0",
        driver="hfi1",
        received=f"{_IB}/hfi1_0/ports/1/counters/port_rcv_data",
        sent=f"{_IB}/hfi1_0/ports/1/counters/port_xmit_data",
        per_gb=125_000_000,
        name="opa:hfi1_0/1",
    ),
    "Omni-Path, hfi2": Counted(
        device="hfi2_0",
        driver="hfi2",
        received=f"{_IB}/hfi2_0/ports/1/counters/port_rcv_data",
        sent=f"{_IB}/hfi2_0/ports/1/counters/port_xmit_data",
        per_gb=125_000_000,
        name="opa:hfi2_0/1",
    ),
    # `driver` is the driver of the PCI device: bnxt_en for the RDMA device bnxt_re.
    "RoCE, Broadcom": Counted(
        device="bnxt_re0",
        driver="bnxt_en",
        received=f"{_IB}/bnxt_re0/ports/1/hw_counters/rx_bytes",
        sent=f"{_IB}/bnxt_re0/ports/1/hw_counters/tx_bytes",
        per_gb=10**9,
        name="bnxt:bnxt_re0/1",
        others={f"{_IB}/bnxt_re0/ports/1/link_layer": "Ethernet"},
    ),
    # bnxt_re_assign_pma_port_ext_counters() in the driver's hw_counters.c counts words of 4 bytes.
    "RoCE, Broadcom, Linux 6.15": Counted(
        device="bnxt_re0",
        driver="bnxt_en",
        received=f"{_IB}/bnxt_re0/ports/1/counters/port_rcv_data",
        sent=f"{_IB}/bnxt_re0/ports/1/counters/port_xmit_data",
        per_gb=250_000_000,
        name="rdma:bnxt_re0/1",
        others={f"{_IB}/bnxt_re0/ports/1/link_layer": "Ethernet"},
    ),
    # The firmware of ionic chooses the names of its counters (ROCm/omnistat, request 301). `driver`
    # is the driver of the PCI device, also for the RDMA driver ionic_rdma.
    "RoCE, AMD": Counted(
        device="ionic_0",
        driver="ionic",
        received=f"{_IB}/ionic_0/ports/1/hw_counters/rx_rdma_ucast_bytes",
        sent=f"{_IB}/ionic_0/ports/1/hw_counters/tx_rdma_ucast_bytes",
        per_gb=10**9,
        name="ionic:ionic_0/1",
        others={
            f"{_IB}/ionic_0/ports/1/link_layer": "Ethernet",
            f"{_IB}/ionic_0/ports/1/counters/port_rcv_data": "",
        },
    ),
    # Names of the counters are from mana_ib_port_stats_desc in the driver's counters.c.
    "RoCE, Azure": Counted(
        device="mana_0",
        driver="mana",
        received=f"{_IB}/mana_0/ports/1/hw_counters/rx_bytes",
        sent=f"{_IB}/mana_0/ports/1/hw_counters/tx_bytes",
        per_gb=10**9,
        name="mana:mana_0/1",
        others={f"{_IB}/mana_0/ports/1/link_layer": "Ethernet"},
    ),
    # Names of the counters are from erdma_descs in the driver's erdma_verbs.c.
    "iWARP, Alibaba": Counted(
        device="erdma_0",
        driver="erdma",
        received=f"{_IB}/erdma_0/ports/1/hw_counters/rx_bytes_cnt",
        sent=f"{_IB}/erdma_0/ports/1/hw_counters/tx_bytes_cnt",
        per_gb=10**9,
        name="erdma:erdma_0/1",
        others={f"{_IB}/erdma_0/node_type": "4: RNIC"},
    ),
    "InfiniBand": Counted(
        device="mlx5_0",
        driver="mlx5_core",
        received=f"{_IB}/mlx5_0/ports/1/counters/port_rcv_data",
        sent=f"{_IB}/mlx5_0/ports/1/counters/port_xmit_data",
        per_gb=250_000_000,
        name="rdma:mlx5_0/1",
    ),
    "Ethernet": Counted(
        device="eth1", driver=None, received="", sent="", per_gb=10**9, name="net:eth1"
    ),
}


# Nodes with their files of /sys: `PATH: CONTENT` for a file, `PATH -> driver NAME` for a link.

OMNI_PATH = f"""\
{_IB}/hfi1_0/ports/1/state: 4: ACTIVE
{_IB}/hfi1_0/ports/1/link_layer: InfiniBand
{_IB}/hfi1_0/ports/1/rate: 100 Gb/sec (4X EDR)
{_IB}/hfi1_0/node_type: 1: CA
{_IB}/hfi1_0/device -> driver hfi1
"""
BROADCOM = f"""\
{_IB}/bnxt_re0/ports/1/state: 4: ACTIVE
{_IB}/bnxt_re0/ports/1/link_layer: Ethernet
{_IB}/bnxt_re0/ports/1/rate: 200 Gb/sec (4X HDR)
{_IB}/bnxt_re0/ports/1/hw_counters/rx_bytes: 7
{_IB}/bnxt_re0/node_type: 1: CA
{_IB}/bnxt_re0/device -> driver bnxt_en
"""
#: RoCE with link aggregation (LAG). The RDMA device reports the rate of one rail. The network bond
#: reports the rate of all ports that can send.
BONDED = f"""\
{_IB}/mlx5_bond_0/ports/1/state: 4: ACTIVE
{_IB}/mlx5_bond_0/ports/1/link_layer: Ethernet
{_IB}/mlx5_bond_0/ports/1/rate: 200 Gb/sec (4X HDR)
{_IB}/mlx5_bond_0/ports/1/gid_attrs/ndevs/0: bond0
{_IB}/mlx5_bond_0/node_type: 1: CA
{_IB}/mlx5_bond_0/device -> driver mlx5_core
sys/class/net/bond0/bonding/mode: 802.3ad 4
sys/class/net/bond0/speed: 400000
"""
CHELSIO = f"""\
{_IB}/cxgb4_0/ports/1/state: 4: ACTIVE
{_IB}/cxgb4_0/ports/1/link_layer: Ethernet
{_IB}/cxgb4_0/ports/1/rate: 100 Gb/sec (4X EDR)
{_IB}/cxgb4_0/node_type: 4: RNIC
{_IB}/cxgb4_0/device -> driver cxgb4
"""


@dataclass(frozen=True, kw_only=True)
class Node:
    """The files of /sys of a node, and the right results for this node.

    If `text` is None, the files are in `../shared/cases/CASE.txt`.
    """

    case: str
    transport: str
    device: str
    injector: str
    #: Rate of the port. None if the driver reports the same rate for every device.
    rate_b_s: float | None
    #: Options that nimc gives perftest on this node; None if perftest cannot write there.
    options: list[str] | None
    text: str | None = None


NODES = [
    Node(
        case="slingshot_four_cxi",
        transport="Slingshot",
        device="cxi0",
        injector="mpi_put",
        rate_b_s=25e9,
        options=None,
    ),
    Node(
        case="init_efa_node",
        transport="EFA",
        device="rdmap16s27",
        injector="perftest",
        rate_b_s=None,
        options=["-c", "SRD", "-x", "0"],
    ),
    Node(
        case="iwarp_irdma",
        transport="iWARP",
        device="irdma0",
        injector="perftest",
        rate_b_s=12.5e9,
        options=["-R"],
    ),
    Node(
        case="hfi1",
        transport="Omni-Path",
        device="hfi1_0",
        injector="mpi_put",
        rate_b_s=12.5e9,
        options=[],
        text=OMNI_PATH,
    ),
    Node(
        case="hfi2",
        transport="Omni-Path",
        device="hfi2_0",
        injector="mpi_put",
        rate_b_s=12.5e9,
        options=[],
        text=OMNI_PATH.replace("hfi1", "hfi2"),
    ),
    Node(
        case="bnxt_re",
        transport="RoCE",
        device="bnxt_re0",
        injector="perftest",
        rate_b_s=25e9,
        options=[],
        text=BROADCOM,
    ),
    Node(
        case="mlx5, bonded",
        transport="RoCE",
        device="mlx5_bond_0",
        injector="perftest",
        rate_b_s=50e9,
        options=[],
        text=BONDED,
    ),
    Node(
        case="iw_cxgb4",
        transport="iWARP",
        device="cxgb4_0",
        injector="perftest",
        rate_b_s=12.5e9,
        options=["-R"],
        text=CHELSIO,
    ),
]
