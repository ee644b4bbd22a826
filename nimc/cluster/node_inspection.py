"""Program that inspects the node on which it runs, and writes its facts to the folder of a job.

`srun` starts one task of it per node. The task with rank RANK writes `RANK.json`. It uses only the
standard library.
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

#: Name of the file in the job's folder with Slurm's state of the job when it ended.
JOB_STATE = "job-state"
#: How the reason begins if ReFrame cancelled the job because it had waited too long in the queue.
NOT_STARTED_REASON = "it had not started after"
#: Number of the bit in `CapEff` for the capability to lock any amount of memory.
_CAP_IPC_LOCK = 14
_PROCESS_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, kw_only=True)
class NodeReport:
    """The facts of an inspected node."""

    #: The node's name in Slurm.
    name: str
    #: Its hardware and kernel.
    host: Host
    #: ReFrame's folders that do not exist on the node. The checkout, Python and the results folder
    #: exist there, since the node could not report otherwise.
    unseen: list[str]
    #: Whether the node sees that the host that submitted the job has locked a file. If not, each
    #: host has locks of its own. None if the node cannot lock files at all.
    sees_lock: bool | None
    #: Interface -> its IPv4 address; None if it has no such address.
    addresses: dict[str, str | None]
    #: Injector (program that makes writes) -> what is missing for it, and how to get this. It is
    #: None if the injector is ready.
    injector_faults: dict[str, str | None]
    #: Device or interface -> name of the counter that counts its bytes. `DEVICE` means the first
    #: port of an RDMA device, `DEVICE:PORT` another port.
    counters: dict[str, str] = field(default_factory=dict)
    #: Device or interface without a counter, named as in `counters` -> why it has no counter.
    uncounted: dict[str, str] = field(default_factory=dict)
    #: Injector -> index of the GID (address of an RDMA port) that is passed to it. Injectors
    #: without an index are left out.
    gid_indexes: dict[str, int] = field(default_factory=dict)
    #: RDMA device -> the network interface on its first port. Devices without an interface are left
    #: out.
    device_interfaces: dict[str, str] = field(default_factory=dict)
    #: RDMA device -> an earlier RDMA device with the same physical port. Other devices are left
    #: out.
    shared_ports: dict[str, str] = field(default_factory=dict)
    #: RDMA device -> rate of its PCIe link, bytes per second. Devices with an unknown rate are left
    #: out.
    pcie_b_s: dict[str, float] = field(default_factory=dict)
    #: Memory that a job step may lock, bytes; None if it may lock any amount.
    lockable_b: int | None = None

    def why_no_injector(self, name: str, fabric: Fabric | None) -> str:
        """Return why an injector cannot write over a fabric on this node, and the remedy.

        The text is empty if the injector can write.
        """
        return INJECTORS[name].why_not_over(fabric) or self.injector_faults.get(name) or ""


def main() -> None:
    """Run `node_inspection FOLDER DEVICE INTERFACE PATH...`; device and interface may be empty."""
    folder = Path(sys.argv[1])
    device, interface = (name or None for name in sys.argv[2:4])
    report = inspect_node(folder, device, interface, paths=sys.argv[4:])
    rank = os.environ.get("SLURM_PROCID", "0")
    replace_text(folder / f"{rank}.json", json.dumps(asdict(report)))


def inspect_node(
    folder: Path, device: str | None, interface: str | None, paths: list[str]
) -> NodeReport:
    """Return the facts of this node.

    `folder` is the job's folder, which has the lock. `device` and `interface` are those of the site
    file. `paths` are folders that the node should see.
    """
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
        injector_faults={
            name: injector.why_missing(device) for name, injector in INJECTORS.items()
        },
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
    """Return how much memory this process may lock, bytes; None if it may lock any amount."""
    limit_b, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    effective = re.search(
        r"^CapEff:\s*([0-9a-f]+)$", kernel_text.read(_PROCESS_STATUS), re.MULTILINE
    )
    has_capability = effective is not None and (int(effective[1], 16) >> _CAP_IPC_LOCK) & 1
    return None if has_capability or limit_b == resource.RLIM_INFINITY else limit_b


def _sees_lock(lock_file: Path) -> bool | None:
    """Return whether this node sees that another host has locked the file.

    It sees the lock if it cannot lock the file itself. None if the file system has no locks.
    """
    try:
        with private_lock(lock_file) as lock:
            return not lock.acquire()
    except MachineError:
        return None


def _address(interface: str) -> str | None:
    try:
        return wire.interface_address(interface)
    except wire.WireError:
        return None


if __name__ == "__main__":
    main()
