"""The fabrics, one row each: how they are recognised, who can write there, what counts the bytes.

Nothing else knows a fabric by its name. `devices` reads sysfs for it; docs/fabrics.md is made of it
(`python -m nimc.cluster.fabric_page`). Standard library only.

Sources. Counters: shs-cxi-driver's cass_telem.c and shs-libcxi's cxi_stat.c (56 bits); Linux:
infiniband/hw/efa/efa_verbs.c, hw/hfi1/mad.c (with opa-ff's stl_pm.h), hw/bnxt_re/hw_counters.c,
hw/irdma/verbs.c, ethernet/chelsio/cxgb4/cxgb4_main.c, if_link.h, ABI/stable/sysfs-class-infiniband.
Drivers: the device of an RDMA device is its PCI device, so its driver is the one for Ethernet.
Variables: the manuals of libfabric's providers (fi_cxi, fi_opx, fi_efa, fi_verbs, fi_tcp), of PSM2,
UCX, Open MPI and MVAPICH2.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from records.notes import Note

#: Injectors that a machine's file may name: those that write.
InjectorName = Literal["perftest", "ucx", "mpi_put"]
_PORT = "sys/class/infiniband/{device}/ports/{port}"
_CXI = "sys/class/cxi/{device}/device/telemetry"
#: Drivers of devices that irdma serves, and of those that bnxt_re does.
_INTEL = ("irdma", "ice", "i40e", "i40iw", "idpf")
_BROADCOM = ("bnxt_re", "bnxt_en")


@dataclass(frozen=True, kw_only=True)
class Counter:
    """The files in which devices of one kind count the bytes that passed them."""

    #: Name of a reading.
    name: str
    #: Files below the root, whose numbers are added up; `#` and the column of a line that begins
    #: with the interface and `:`.
    received: tuple[str, ...]
    sent: tuple[str, ...]
    #: Unit of the numbers in them, bytes.
    unit_b: int = 1
    #: The devices' kernel drivers; empty: any that has the files.
    drivers: tuple[str, ...] = ()
    #: The value at which it stops; None: it starts again at 0.
    stops_at: int | None = None


@dataclass(frozen=True)
class OneSided:
    """Files of a device that count RDMA writes received and RDMA reads answered, bytes."""

    received: str
    sent: str


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """One fabric; the first row that a device fits is its own."""

    #: The writer's transport in samples.
    name: str
    #: Injectors that can write there; the first is the one that `nimc init` takes.
    injectors: tuple[InjectorName, ...]
    #: The kind of writes in words, one-sided or not.
    one_sided: str
    #: The hardware that it was tried on.
    tried: str
    #: Folder of its devices in /sys/class; if that tells, their drivers, node type and link layer,
    #: and whether they have a file `parent`.
    folder: str = "infiniband"
    drivers: tuple[str, ...] = ()
    node_type: str = ""
    link_layer: str = ""
    is_software: bool = False
    #: Regular expression of its devices' names, if this host does not have the device to look at,
    #: or not its driver; empty: names do not tell.
    names: str = ""
    counters: tuple[Counter, ...] = ()
    #: The sign that writes were one-sided; None: they are, or are never.
    shown_by: OneSided | None = None
    #: The caveat of writers' figures there; and if nothing shows that they were one-sided.
    note: Note | None = None
    emulated: Note | None = None
    #: Variable -> its value, for MPI over one device; each library reads its own. What a device's
    #: name must be to have a `{unit}`. And the variable that takes several, comma-separated.
    mpi: Mapping[str, str] = field(default_factory=dict)
    unit: str = ""
    mpi_several: str = ""
    #: Options that perftest needs there.
    perftest: tuple[str, ...] = ()
    #: True if writers choose a GID of RoCE v2; and the injectors that need one of IPv6.
    has_gids: bool = False
    needs_ipv6: tuple[InjectorName, ...] = ()

    def fits(
        self,
        name: str,
        folder: str,
        driver: str,
        node_type: str,
        layers: Collection[str],
        *,
        parent: bool,
    ) -> bool:
        """Return whether a device of this name is of this fabric; without a driver, by its name."""
        by_name = not driver and re.fullmatch(self.names, name)
        return (
            folder == self.folder
            and (not self.drivers or driver in self.drivers or bool(by_name))
            and self.node_type in ("", node_type)
            and (not self.link_layer or self.link_layer in layers)
            and (parent or not self.is_software)
        )

    def variables(self, devices: Mapping[str, str]) -> dict[str, str]:
        """Variables for MPI over these devices (name -> what UCX calls it).

        Raises ValueError, which says why there are none.
        """
        if len(devices) > 1:
            if not self.mpi_several:
                raise ValueError(f"no MPI takes several devices of {self.name}")
            is_ucx = self.mpi_several == "UCX_NET_DEVICES"
            return {self.mpi_several: ",".join(devices.values() if is_ucx else devices)}
        ((device, name),) = devices.items()
        base, _, port = device.partition(":")
        unit = re.fullmatch(self.unit, base)
        if unit is None and self.unit:
            raise ValueError(f"MPI over {self.name} takes a unit, which the name {base} is not")
        values = {"name": name, "device": base, "port": port or "1"}
        values["unit"] = unit[1] if unit else ""
        return {variable: text.format(**values) for variable, text in self.mpi.items()}


_VERBS_COUNTER = Counter(
    name="rdma:{device}/{port}",
    received=(f"{_PORT}/counters/port_rcv_data",),
    sent=(f"{_PORT}/counters/port_xmit_data",),
    unit_b=4,
    stops_at=2**32 - 1,  # devices without the extended counters of 64 bits
)
_BROADCOM_COUNTER = Counter(
    name="bnxt:{device}/{port}",
    received=(f"{_PORT}/hw_counters/rx_bytes",),
    sent=(f"{_PORT}/hw_counters/tx_bytes",),
    drivers=_BROADCOM,
)


def _intel(folder: str) -> Counter:
    """IP octets of both versions, as the RDMA engine counts them."""
    received, sent = (
        tuple(f"{folder}/hw_counters/ip{version}{way}Octets" for version in (4, 6))
        for way in ("In", "Out")
    )
    return Counter(name="irdma:{device}/{port}", received=received, sent=sent, drivers=_INTEL)


#: Kernels before 5.15 have them in the device's folder.
_INTEL_COUNTERS = (_intel(_PORT), _intel("sys/class/infiniband/{device}"))
#: Unlike /sys/class/net it always shows the caller's network namespace.
_NET_COUNTER = Counter(
    name="net:{interface}", received=("proc/net/dev#0",), sent=("proc/net/dev#8",)
)
#: Its interfaces count what their port passes, RDMA too.
_CHELSIO_COUNTER = Counter(
    name="net:{interface}",
    received=_NET_COUNTER.received,
    sent=_NET_COUNTER.sent,
    drivers=("cxgb4",),
)

_OVER_VERBS = {
    "UCX_NET_DEVICES": "{name}",
    "OMPI_MCA_btl_openib_if_include": "{device}:{port}",
    "FI_VERBS_DEVICE_NAME": "{device}",
    "MV2_IBA_HCA": "{device}",
    "MV2_DEFAULT_PORT": "{port}",
}
_BY_DEVICE = "yes: the target's device places them"
_BY_PROCESSOR = "no: the target's processors receive"
_ONLOAD = "onload: the driver or the MPI of the target places them, by its processors"

#: In the order in which they are tried.
TABLE = (
    Fabric(
        name="Slingshot",
        folder="cxi",
        names=r"cxi[0-9]+",
        injectors=("mpi_put",),
        one_sided=_BY_DEVICE,
        counters=(
            Counter(
                name="cxi:{device}",
                received=(f"{_CXI}/hni_sts_rx_ok_octets",),
                sent=(f"{_CXI}/hni_sts_tx_ok_octets",),
            ),
        ),
        mpi={"FI_CXI_DEVICE_NAME": "{device}"},
        mpi_several="FI_CXI_DEVICE_NAME",
        tried="hand-made /sys files; sources",
    ),
    Fabric(
        name="EFA",
        drivers=("efa",),
        names=r"rdmap[0-9]+s[0-9]+|efa_[0-9]+",
        injectors=("perftest", "mpi_put"),
        one_sided="if the target counts RDMA writes received; else libfabric emulates them",
        counters=(
            Counter(
                name="efa:{device}/{port}",
                received=(f"{_PORT}/hw_counters/rx_bytes",),
                sent=(f"{_PORT}/hw_counters/tx_bytes",),
            ),
        ),
        shown_by=OneSided(
            received=f"{_PORT}/hw_counters/rdma_write_recv_bytes",
            sent=f"{_PORT}/hw_counters/rdma_read_resp_bytes",
        ),
        emulated=Note.EFA_EMULATED,
        mpi={"FI_EFA_IFACE": "{device}"},
        mpi_several="FI_EFA_IFACE",
        perftest=("-c", "SRD", "-x", "0"),
        tried="hand-made /sys files; sources",
    ),
    Fabric(
        name="Omni-Path",
        drivers=("hfi1", "hfi2"),
        names=r"hfi[12]_[0-9]+|opap.+",
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
        mpi={
            **_OVER_VERBS,
            "HFI_UNIT": "{unit}",
            "PSM2_MULTIRAIL": "0",
            "FI_OPX_HFI_SELECT": "{unit}",
        },
        unit=r"hfi[12]_([0-9]+)",
        tried="hand-made /sys files; sources (hfi2 is taken to be as hfi1)",
    ),
    Fabric(
        name="iWARP",
        node_type="4: RNIC",
        names=r"iwp.+|cxgb4_[0-9]+",
        injectors=("perftest", "mpi_put"),
        one_sided=_BY_DEVICE,
        counters=(*_INTEL_COUNTERS, _CHELSIO_COUNTER),
        mpi={name: text for name, text in _OVER_VERBS.items() if name != "UCX_NET_DEVICES"},
        perftest=("-R",),
        tried="hand-made /sys files; sources",
    ),
    Fabric(
        name="soft-RoCE",
        is_software=True,
        names=r"rxe[0-9]+",
        injectors=("perftest", "ucx", "mpi_put"),
        one_sided="emulated by the kernel of the target",
        note=Note.SOFT_ROCE,
        counters=(_NET_COUNTER,),
        mpi=_OVER_VERBS,
        mpi_several="UCX_NET_DEVICES",
        has_gids=True,
        # UCX 1.13 on Linux 6.1: its datagrams to a GID of IPv4 are never answered.
        needs_ipv6=("ucx",),
        tried="soft-RoCE in virtual machines",
    ),
    Fabric(
        name="RoCE",
        link_layer="Ethernet",
        names=r"rocep.+",
        injectors=("perftest", "ucx", "mpi_put"),
        one_sided=_BY_DEVICE,
        counters=(_VERBS_COUNTER, _BROADCOM_COUNTER, *_INTEL_COUNTERS),
        mpi=_OVER_VERBS,
        mpi_several="UCX_NET_DEVICES",
        has_gids=True,
        tried="by soft-RoCE, which has the same code; hand-made /sys files; sources",
    ),
    Fabric(
        name="TrueScale",
        drivers=("ib_qib", "qib"),
        names=r"qib[0-9]+",
        injectors=("perftest", "ucx", "mpi_put"),
        one_sided=_ONLOAD,
        counters=(_VERBS_COUNTER,),
        mpi={**_OVER_VERBS, "IPATH_UNIT": "{unit}"},
        unit=r"qib([0-9]+)",
        tried="sources",
    ),
    Fabric(
        name="InfiniBand",
        names=r"ibp.+",
        injectors=("perftest", "ucx", "mpi_put"),
        one_sided=_BY_DEVICE,
        counters=(_VERBS_COUNTER,),
        mpi=_OVER_VERBS,
        mpi_several="UCX_NET_DEVICES",
        tried="by soft-RoCE, which has the same code; hand-made /sys files; sources",
    ),
    Fabric(
        name="tcp",
        folder="net",
        injectors=("ucx", "mpi_put"),
        one_sided=_BY_PROCESSOR,
        note=Note.TCP,
        counters=(_NET_COUNTER,),
        mpi={
            "UCX_NET_DEVICES": "{name}",
            "FI_TCP_IFACE": "{name}",
            "OMPI_MCA_btl_tcp_if_include": "{name}",
        },
        mpi_several="UCX_NET_DEVICES",
        tried="veth between network namespaces, and between virtual machines",
    ),
    Fabric(
        name="shared memory",
        folder="",
        injectors=("ucx", "mpi_put"),
        one_sided="by the origin's processor",
        note=Note.SHARED_MEMORY,
        tried="hosts and virtual machines",
    ),
)
#: Name -> fabric.
FABRICS = {row.name: row for row in TABLE}


def by_name(device: str) -> Fabric | None:
    """The fabric of a device that this host need not have; None if its name does not tell."""
    name = device.partition(":")[0]
    return next((row for row in TABLE if row.names and re.fullmatch(row.names, name)), None)
