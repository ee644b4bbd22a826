"""Program that writes the facts of one node as `RANK.json` to the folder of a job.

`srun` starts it as one task per node. It uses only the standard library.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from conductor import counters, wire
from conductor.agent.agent import node_name
from conductor.counters import CounterReading
from conductor.injectors import INJECTORS
from records import kernel_text
from records.errors import MachineError
from records.files import private_lock, replace_text
from records.machine import devices, host
from records.machine.fabrics import Fabric
from records.machine.host import Host

#: File in the job's folder: Slurm's state of the job at its end.
JOB_STATE = "job-state"
#: Start of the reason why a job ended if ReFrame cancelled it because it had waited too long.
NOT_STARTED_REASON = "it had not started after"
#: Bit in `CapEff` of the capability to lock any amount of memory.
_CAP_IPC_LOCK = 14
_PROCESS_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, kw_only=True)
class NodeReport:
    """The facts of a node that was looked at."""

    #: The node's name in Slurm.
    name: str
    #: Its hardware and kernel.
    host: Host
    #: ReFrame's folders that it does not see. It sees the checkout, Python and the results: without
    #: them there would be no report.
    unseen: list[str]
    #: True if it sees the lock that the host that submits the job holds.
    sees_lock: bool
    #: Interface -> its IPv4 address; None if it has none.
    addresses: dict[str, str | None]
    #: Injector -> what it lacks, and how to get that; None if it is ready.
    injectors: dict[str, str | None]
    #: RDMA device (its first port), `DEVICE:PORT` or interface -> the counter of its bytes.
    counters: dict[str, str] = field(default_factory=dict)
    #: The same without a counter -> why there is none.
    uncounted: dict[str, str] = field(default_factory=dict)
    #: Injector -> index of the GID that is passed to it; only injectors that are passed one.
    gid_indexes: dict[str, int] = field(default_factory=dict)
    #: RDMA device -> the interface that shares its first port; only devices with one.
    device_interfaces: dict[str, str] = field(default_factory=dict)
    #: RDMA device -> the one before it with the same physical port; only devices that share one.
    shared_ports: dict[str, str] = field(default_factory=dict)
    #: RDMA device -> what its PCIe link carries, bytes per second; only devices that tell.
    pcie_b_s: dict[str, float] = field(default_factory=dict)
    #: Memory that a step may lock, bytes; None: any amount.
    lockable_b: int | None = None

    def why_no_injector(self, name: str, fabric: Fabric | None) -> str:
        """Return why an injector cannot write over a fabric here, with the remedy; else empty."""
        return INJECTORS[name].why_not_over(fabric) or self.injectors.get(name) or ""


def main() -> None:
    """`node_look FOLDER DEVICE INTERFACE PATH...`; device and interface may be empty."""
    folder = Path(sys.argv[1])
    device, interface = (name or None for name in sys.argv[2:4])
    report = look_at_node(folder, device, interface, paths=sys.argv[4:])
    rank = os.environ.get("SLURM_PROCID", "0")
    replace_text(folder / f"{rank}.json", json.dumps(asdict(report)))


def look_at_node(
    folder: Path, device: str | None, interface: str | None, paths: list[str]
) -> NodeReport:
    """Return the facts of this node, which should see `paths`. `folder` is the job's folder."""
    this_node = host.detect()
    names_of_interfaces = {adapter.name for adapter in this_node.interfaces}
    names = names_of_interfaces | {adapter.name for adapter in this_node.rdma}
    names |= {
        f"{adapter.name}:{port.number}"
        for adapter in this_node.rdma
        for port in adapter.ports
        if port.number > 1
    }
    counter_names: dict[str, str] = {}
    uncounted: dict[str, str] = {}
    for name in sorted(names):
        reading = counters.read(name, "received")
        if reading and reading.bytes_b is not None:
            counter_names[name] = reading.name
        else:
            uncounted[name] = _why_uncounted(name, reading)
    gid_indexes: dict[str, int] = {}
    for name, injector in INJECTORS.items():
        index = injector.gid_index(device, interface)
        if index is not None:
            gid_indexes[name] = index
    return NodeReport(
        name=node_name(),
        host=this_node,
        unseen=[path for path in paths if not os.path.exists(path)],
        sees_lock=_sees_lock(folder / "lock"),
        addresses={adapter.name: _address(adapter.name) for adapter in this_node.interfaces},
        injectors={name: injector.why_missing(device) for name, injector in INJECTORS.items()},
        counters=counter_names,
        uncounted=uncounted,
        gid_indexes=gid_indexes,
        device_interfaces={
            adapter.name: shared_interface
            for adapter in this_node.rdma
            if (shared_interface := devices.interface_of(adapter.name)) in names_of_interfaces
        },
        shared_ports=devices.shared_ports(),
        pcie_b_s={
            adapter.name: rate_b_s
            for adapter in this_node.rdma
            if (rate_b_s := devices.pcie_b_s(adapter.name)) is not None
        },
        lockable_b=_lockable_b(),
    )


def _why_uncounted(device: str, reading: CounterReading | None) -> str:
    if reading is None:
        return counters.why_no_count(device)
    return f"{reading.name} has stopped at its largest value (`perfquery -R` resets it)"


def _lockable_b() -> int | None:
    """Return the memory that this process may lock; None: any amount."""
    limit_b, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    effective = re.search(
        r"^CapEff:\s*([0-9a-f]+)$", kernel_text.read(_PROCESS_STATUS), re.MULTILINE
    )
    has_capability = effective is not None and (int(effective[1], 16) >> _CAP_IPC_LOCK) & 1
    return None if has_capability or limit_b == resource.RLIM_INFINITY else limit_b


def _sees_lock(lock_file: Path) -> bool:
    """Return whether this task sees the lock, which it then cannot take."""
    try:
        with private_lock(lock_file) as lock:
            return not lock.acquire()
    except MachineError:  # a file system without locks
        return False


def _address(interface: str) -> str | None:
    try:
        return wire.interface_address(interface)
    except wire.WireError:
        return None


if __name__ == "__main__":
    main()
