"""The table of fabrics: how each is recognised, what can write over it, and what counts its bytes.

All that is special to one fabric is in this module. `devices` uses the table to read sysfs. `python
-m nimc.cluster.fabric_page` makes docs/fabrics.md from it. This module uses only the standard
library.

Sources. Counters: shs-cxi-driver's cass_telem.c and shs-libcxi's cxi_stat.c (56 bits); Linux:
infiniband/hw/efa/efa_verbs.c, hw/hfi1/mad.c (with opa-ff's stl_pm.h), hw/bnxt_re/hw_counters.c,
hw/irdma/verbs.c, hw/mana/counters.c, hw/erdma/erdma_verbs.c, ethernet/chelsio/cxgb4/cxgb4_main.c,
if_link.h, ABI/stable/sysfs-class-infiniband. No bytes: hw/hns/hns_roce_main.c, and hw/qedr/verbs.c,
whose `process_mad` never replies. The firmware of ionic names its counters, so the names
are taken from ROCm/omnistat, request 301.
Drivers: sysfs shows the driver of the PCI device: the Ethernet driver, not the RDMA driver.
Variables: the manuals of libfabric's providers (fi_cxi, fi_opx, fi_efa, fi_verbs, fi_tcp), of PSM2,
UCX, Open MPI and MVAPICH2.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from records.notes import Note

#: Injectors (programs that write) that a machine's file may name.
InjectorName = Literal["perftest", "ucx", "mpi_put"]
#: Options of perftest that name a file, or write one, abbreviated or not.
PERFTEST_FILE_OPTION = re.compile(r"--(out_|mm|pa|k|cr|data_e)[\w-]*(=.*)?", re.DOTALL)
#: The text that rdma_rename of rdma-core puts after a fabric's prefix: number of an onboard device,
#: an address (`P2p1s0f1`: PCI domain, bus, slot and function; `s5`: a slot that has a number), or
#: the GUID of a node.
_LOCATION = r"(?:o[0-9]+|(?:P[0-9]+)?(?:p[0-9]+)?s[0-9]+.*|x[0-9a-f]{16})"
_PORT = "sys/class/infiniband/{device}/ports/{port}"
_CXI = "sys/class/cxi/{device}/device/telemetry"
#: Drivers of devices whose RDMA driver is irdma (earlier: i40iw), and of devices with bnxt_re.
_INTEL = ("irdma", "ice", "i40e", "i40iw", "idpf")
_BROADCOM = ("bnxt_re", "bnxt_en")


@dataclass(frozen=True, kw_only=True)
class Counter:
    """The files in which devices of one kind count the bytes that passed them."""

    #: Name of the counter in readings.
    name: str
    #: Files below the root; their numbers are added up. `FILE#COLUMN` is a column of the line that
    #: begins with the interface and `:`.
    received: tuple[str, ...]
    sent: tuple[str, ...]
    #: Unit of the numbers in these files, bytes.
    unit_b: int = 1
    #: The devices' kernel drivers; empty: any driver that has the files.
    drivers: tuple[str, ...] = ()
    #: The largest value, at which the counter stops; None: the counter starts again from 0.
    stops_at: int | None = None
    #: Time between two updates by the device, seconds; 0: a reading is up to date.
    period_s: float = 0.0


@dataclass(frozen=True)
class OneSidedCounter:
    """Files of a device that count RDMA writes received and RDMA reads answered, bytes."""

    received: str
    sent: str


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """One fabric. A device belongs to the first fabric in the table that it fits."""

    #: Name of the fabric. In samples, it is the transport of a writer.
    name: str
    #: Injectors that can write over it. `nimc init` chooses the first one.
    injectors: tuple[InjectorName, ...]
    #: Whether writes are one-sided, in words.
    one_sided: str
    #: The hardware on which this row was tried.
    tried_on: str
    #: Folder of its devices in /sys/class. If the folder is not enough to recognise them: their
    #: drivers, node type, link layer, and whether they have a file `parent`.
    folder: str = "infiniband"
    drivers: tuple[str, ...] = ()
    node_type: str = ""
    link_layer: str = ""
    is_software: bool = False
    #: Regular expression of its devices' names. It is used if this host lacks the device or its
    #: driver; empty: names do not show the fabric.
    name_pattern: str = ""
    counters: tuple[Counter, ...] = ()
    #: The rate that the driver reports for every port, whatever its rate; empty if it reports the
    #: true rate.
    placeholder_rate: str = ""
    #: The counter that shows whether writes were one-sided; None if all writes are, or no write is.
    one_sided_counter: OneSidedCounter | None = None
    #: The caveat of writers' figures on this fabric.
    note: Note | None = None
    #: The caveat of writers' figures if nothing shows that their writes were one-sided.
    emulated_note: Note | None = None
    #: Environment variable -> its value, for MPI over one device. Each MPI library reads its own
    #: variables.
    mpi_variables: Mapping[str, str] = field(default_factory=dict)
    #: Regular expression of a device's name. Its group is the `{unit}` of these values.
    unit_pattern: str = ""
    #: The variable that takes several devices, comma-separated; empty if there is none.
    mpi_list_variable: str = ""
    #: Options that perftest needs on this fabric.
    perftest_options: tuple[str, ...] = ()
    #: True if writers choose a GID of RoCE v2.
    has_gids: bool = False
    #: Injectors that need a GID of IPv6.
    ipv6_injectors: tuple[InjectorName, ...] = ()
    #: Value of Slurm's option `--network` for the steps of agents and writers, which share nodes
    #: with the application; empty: the option is not given.
    step_network: str = ""

    def fits(
        self,
        name: str,
        folder: str,
        driver: str,
        node_type: str,
        link_layers: Collection[str],
        *,
        has_parent: bool,
    ) -> bool:
        """Return whether a device is of this fabric; if its driver is unknown, its name decides."""
        fits_name = not driver and re.fullmatch(self.name_pattern, name) is not None
        return (
            folder == self.folder
            and (not self.drivers or driver in self.drivers or fits_name)
            and self.node_type in ("", node_type)
            and (not self.link_layer or self.link_layer in link_layers)
            and (has_parent or not self.is_software)
        )

    def variables(self, ucx_names: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables for MPI over devices: device -> UCX's name of it.

        Raises ValueError, which gives the reason, if there are no such variables.
        """
        if len(ucx_names) > 1:
            if not self.mpi_list_variable:
                raise ValueError(f"no MPI takes several devices of {self.name}")
            is_ucx = self.mpi_list_variable == "UCX_NET_DEVICES"
            return {self.mpi_list_variable: ",".join(ucx_names.values() if is_ucx else ucx_names)}
        [(device_port, ucx_name)] = ucx_names.items()
        device, _, port = device_port.partition(":")
        unit = re.fullmatch(self.unit_pattern, device)
        if unit is None and self.unit_pattern:
            raise ValueError(f"MPI over {self.name} takes a unit number, and {device} has none")
        placeholders = {
            "name": ucx_name,
            "device": device,
            "port": port or "1",
            "unit": unit[1] if unit else "",
        }
        templates = self.mpi_variables.items()
        return {variable: template.format(**placeholders) for variable, template in templates}


_VERBS_COUNTER = Counter(
    name="rdma:{device}/{port}",
    received=(f"{_PORT}/counters/port_rcv_data",),
    sent=(f"{_PORT}/counters/port_xmit_data",),
    unit_b=4,
    # Only counters of 32 bits stop. Devices with the extended counters have 64 bits.
    stops_at=2**32 - 1,
)
#: `update_period_ms` in bnxt_re/main.c. Some devices always keep the first counter up to date.
_BROADCOM_PERIOD_S = 1.0
_BROADCOM_COUNTERS = (
    replace(_VERBS_COUNTER, drivers=_BROADCOM, period_s=_BROADCOM_PERIOD_S),
    Counter(
        name="bnxt:{device}/{port}",
        received=(f"{_PORT}/hw_counters/rx_bytes",),
        sent=(f"{_PORT}/hw_counters/tx_bytes",),
        drivers=_BROADCOM,
        period_s=_BROADCOM_PERIOD_S,
    ),
)


def _hw_counter(driver: str, received: str, sent: str) -> Counter:
    """Return the counter of bytes that a driver shows in files of `hw_counters` of the port."""
    return Counter(
        name=f"{driver}:{{device}}/{{port}}",
        received=(f"{_PORT}/hw_counters/{received}",),
        sent=(f"{_PORT}/hw_counters/{sent}",),
        drivers=(driver,),
    )


#: AMD Pensando, Azure's adapter, and Alibaba Cloud's.
_IONIC_COUNTER = _hw_counter("ionic", "rx_rdma_ucast_bytes", "tx_rdma_ucast_bytes")
_MANA_COUNTER = _hw_counter("mana", "rx_bytes", "tx_bytes")
_ERDMA_COUNTER = _hw_counter("erdma", "rx_bytes_cnt", "tx_bytes_cnt")


def _intel_counter(folder: str) -> Counter:
    """Return the counter of the RDMA engine below a folder: octets of IPv4 and IPv6."""
    counters = f"{folder}/hw_counters"
    return Counter(
        name="irdma:{device}/{port}",
        received=(f"{counters}/ip4InOctets", f"{counters}/ip6InOctets"),
        sent=(f"{counters}/ip4OutOctets", f"{counters}/ip6OutOctets"),
        drivers=_INTEL,
    )


#: Kernels before 5.15 have the files in the device's folder.
_INTEL_COUNTERS = (_intel_counter(_PORT), _intel_counter("sys/class/infiniband/{device}"))
#: Unlike /sys/class/net, /proc/net/dev always shows the caller's network namespace.
_NET_COUNTER = Counter(
    name="net:{interface}", received=("proc/net/dev#0",), sent=("proc/net/dev#8",)
)
#: Chelsio's interfaces count all bytes of their port, RDMA too.
_CHELSIO_COUNTER = Counter(
    name="net:{interface}",
    received=_NET_COUNTER.received,
    sent=_NET_COUNTER.sent,
    drivers=("cxgb4",),
)

_VERBS_VARIABLES = {
    "UCX_NET_DEVICES": "{name}",
    "OMPI_MCA_btl_openib_if_include": "{device}:{port}",
    "FI_VERBS_DEVICE_NAME": "{device}",
    "MV2_IBA_HCA": "{device}",
    "MV2_DEFAULT_PORT": "{port}",
}
_BY_DEVICE = "yes: the target's device places them"
_BY_PROCESSOR = "no: the target's processors receive"
_ONLOAD = "onload: the driver or the MPI of the target places them, by its processors"

_FABRICS = (
    Fabric(
        name="Slingshot",
        folder="cxi",
        name_pattern=r"cxi[0-9]+",
        injectors=("mpi_put",),
        one_sided=_BY_DEVICE,
        counters=(
            Counter(
                name="cxi:{device}",
                received=(f"{_CXI}/hni_sts_rx_ok_octets",),
                sent=(f"{_CXI}/hni_sts_tx_ok_octets",),
            ),
        ),
        mpi_variables={"FI_CXI_DEVICE_NAME": "{device}"},
        mpi_list_variable="FI_CXI_DEVICE_NAME",
        # By default HPE's plug-in reserves resources of the device for each CPU of the step. Three
        # steps on 128 CPUs would need more than there are (switch_hpe_slingshot.h: 6 of 2048 portal
        # table entries a CPU), so the application would not start.
        step_network="depth=1",
        tried_on="hand-made /sys files; sources",
    ),
    Fabric(
        name="EFA",
        drivers=("efa",),
        name_pattern=rf"rdma{_LOCATION}|efa_[0-9]+",
        injectors=("perftest", "mpi_put"),
        placeholder_rate="100 Gb/sec (4X EDR)",
        one_sided="if the target counts RDMA writes received; else libfabric emulates them",
        counters=(
            Counter(
                name="efa:{device}/{port}",
                received=(f"{_PORT}/hw_counters/rx_bytes",),
                sent=(f"{_PORT}/hw_counters/tx_bytes",),
            ),
        ),
        one_sided_counter=OneSidedCounter(
            received=f"{_PORT}/hw_counters/rdma_write_recv_bytes",
            sent=f"{_PORT}/hw_counters/rdma_read_resp_bytes",
        ),
        emulated_note=Note.EFA_EMULATED,
        mpi_variables={"FI_EFA_IFACE": "{device}"},
        mpi_list_variable="FI_EFA_IFACE",
        perftest_options=("-c", "SRD", "-x", "0"),
        tried_on="hand-made /sys files; sources",
    ),
    Fabric(
        name="Omni-Path",
        drivers=("hfi1", "hfi2"),
        name_pattern=rf"opa{_LOCATION}|hfi[12]_[0-9]+",
        injectors=("mpi_put", "perftest", "ucx"),
        one_sided=_ONLOAD,
        counters=(
            Counter(
                name="opa:{device}/{port}",
                received=_VERBS_COUNTER.received,
                sent=_VERBS_COUNTER.sent,
                unit_b=8,  # flits, although the file is InfiniBand's
            ),
        ),
        mpi_variables={
            **_VERBS_VARIABLES,
            "HFI_UNIT": "{unit}",
            "PSM2_MULTIRAIL": "0",
            "FI_OPX_HFI_SELECT": "{unit}",
        },
        unit_pattern=r"hfi[12]_([0-9]+)",
        tried_on="hand-made /sys files; sources (hfi2 is assumed to be like hfi1)",
    ),
    Fabric(
        name="iWARP",
        node_type="4: RNIC",
        name_pattern=rf"iw{_LOCATION}|cxgb4_[0-9]+|erdma_[0-9]+",
        injectors=("perftest", "mpi_put"),
        one_sided=_BY_DEVICE,
        counters=(*_INTEL_COUNTERS, _CHELSIO_COUNTER, _ERDMA_COUNTER),
        mpi_variables={
            name: value for name, value in _VERBS_VARIABLES.items() if name != "UCX_NET_DEVICES"
        },
        perftest_options=("-R",),
        tried_on="hand-made /sys files; sources",
    ),
    Fabric(
        name="soft-RoCE",
        is_software=True,
        name_pattern=r"rxe[0-9]+",
        injectors=("perftest", "ucx", "mpi_put"),
        one_sided="emulated by the kernel of the target",
        note=Note.SOFT_ROCE,
        counters=(_NET_COUNTER,),
        mpi_variables=_VERBS_VARIABLES,
        mpi_list_variable="UCX_NET_DEVICES",
        has_gids=True,
        # UCX 1.13 on Linux 6.1: its datagrams to a GID of IPv4 are never answered.
        ipv6_injectors=("ucx",),
        tried_on="soft-RoCE in virtual machines",
    ),
    Fabric(
        name="RoCE",
        link_layer="Ethernet",
        name_pattern=rf"roce{_LOCATION}",
        injectors=("perftest", "ucx", "mpi_put"),
        one_sided=_BY_DEVICE,
        counters=(
            *_BROADCOM_COUNTERS,
            _IONIC_COUNTER,
            _MANA_COUNTER,
            _VERBS_COUNTER,
            *_INTEL_COUNTERS,
        ),
        mpi_variables=_VERBS_VARIABLES,
        mpi_list_variable="UCX_NET_DEVICES",
        has_gids=True,
        tried_on="by soft-RoCE, which has the same code; hand-made /sys files; sources",
    ),
    Fabric(
        name="TrueScale",
        drivers=("ib_qib", "qib"),
        name_pattern=r"qib[0-9]+",
        injectors=("perftest", "ucx", "mpi_put"),
        one_sided=_ONLOAD,
        counters=(_VERBS_COUNTER,),
        mpi_variables={**_VERBS_VARIABLES, "IPATH_UNIT": "{unit}"},
        unit_pattern=r"qib([0-9]+)",
        tried_on="sources",
    ),
    Fabric(
        name="InfiniBand",
        name_pattern=rf"ib{_LOCATION}",
        injectors=("perftest", "ucx", "mpi_put"),
        one_sided=_BY_DEVICE,
        counters=(_VERBS_COUNTER,),
        mpi_variables=_VERBS_VARIABLES,
        mpi_list_variable="UCX_NET_DEVICES",
        tried_on="by soft-RoCE, which has the same code; hand-made /sys files; sources",
    ),
    Fabric(
        name="tcp",
        folder="net",
        injectors=("ucx", "mpi_put"),
        one_sided=_BY_PROCESSOR,
        note=Note.TCP,
        counters=(_NET_COUNTER,),
        mpi_variables={
            "UCX_NET_DEVICES": "{name}",
            "FI_TCP_IFACE": "{name}",
            "OMPI_MCA_btl_tcp_if_include": "{name}",
        },
        mpi_list_variable="UCX_NET_DEVICES",
        tried_on="veth between network namespaces, and between virtual machines",
    ),
    Fabric(
        name="shared memory",
        folder="",
        injectors=("ucx", "mpi_put"),
        one_sided="by the origin's processor",
        note=Note.SHARED_MEMORY,
        tried_on="hosts and virtual machines",
    ),
)
#: Name -> fabric. A device belongs to the first fabric that it fits.
FABRICS = {fabric.name: fabric for fabric in _FABRICS}


def by_name(device: str) -> Fabric | None:
    """Return the fabric that a device's name shows; None if the name fits no fabric."""
    name = device.partition(":")[0]
    for fabric in FABRICS.values():
        if fabric.name_pattern and re.fullmatch(fabric.name_pattern, name):
            return fabric
    return None
