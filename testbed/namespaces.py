"""Network namespaces, the links between them, and their processes.

All processes of a cluster run in its network namespaces, whoever started them. So `down` finds them
by these namespaces, and kills them.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from records.errors import MachineError
from records.kernel_text import number, pids
from testbed.shell import run

#: Folder in which `ip` names network namespaces.
NETNS = Path("/run/netns")
#: The subnet of a cluster is 10.77.X.0/24. In it, the controller has .254 and this host .253.
SUBNET_TEMPLATE = "10.77.{}"
#: Bridge of each rail. The second rail's subnet is 10.78.X.0/24, with the same X.
BRIDGES = ("br0", "br1")
#: Largest packet of all links, bytes.
MTU_B = 9000
#: Time within which killed processes must end, seconds.
_KILL_TIMEOUT_S = 20.0


def existing_namespaces(cluster_tag: str) -> list[str]:
    """Return the names of a cluster's network namespaces (`ClusterLayout.tag`)."""
    if not NETNS.is_dir():
        return []
    return sorted(path.name for path in NETNS.iterdir() if path.name.startswith(f"{cluster_tag}-"))


def owns_netns_folder() -> bool:
    """Return whether only miniclusters use /run/netns, which `ip` creates at its first use."""
    return not NETNS.exists() or all(path.name.startswith("nimc-") for path in NETNS.iterdir())


def pids_in(namespaces: Iterable[str]) -> list[int]:
    """Return the PIDs in these network namespaces. The namespace of this process is left out."""
    own_identity = _identity(Path("/proc/self/ns/net"))
    identities = {_identity(NETNS / name) for name in namespaces} - {None, own_identity}
    return [pid for pid in pids() if _identity(Path(f"/proc/{pid}/ns/net")) in identities]


def kill_all(namespaces: list[str]) -> int:
    """Kill all processes in these namespaces, wait for their end, and return how many there were.

    Raises MachineError if they have not ended in time.
    """
    killed_pids: set[int] = set()
    deadline_s = time.monotonic() + _KILL_TIMEOUT_S
    while left_pids := pids_in(namespaces):
        for pid in left_pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed_pids.update(left_pids)
        if time.monotonic() > deadline_s:
            raise MachineError(f"processes {left_pids} do not end after SIGKILL")
        time.sleep(0.02)
    return len(killed_pids)


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a namespace; None if it does not exist."""
    with suppress(OSError):
        status = path.stat()
        return status.st_dev, status.st_ino
    return None


def inner_pid(status: str) -> int | None:
    """Return a process's PID in its container, from the text of /proc/PID/status.

    None for a process outside containers.
    """
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            _, *pids_by_depth = line.split()
            return number(pids_by_depth[-1]) if len(pids_by_depth) > 1 else None
    return None


def pick_subnet(addresses: str, preferred: int) -> str:
    """Return a subnet `10.77.X` in which the host has no address.

    `addresses` is the output of `ip -o address`. X is `preferred` if that subnet is free. Raises
    MachineError if none is free.
    """
    for offset in range(256):
        subnet = SUBNET_TEMPLATE.format((preferred + offset) % 256)
        if f" {subnet}." not in addresses:
            return subnet
    raise MachineError("all of 10.77.0.0/16 is in use on this host: no subnet for the cluster")


def add_namespace(name: str) -> None:
    """Create a network namespace, and start its loopback interface."""
    run(["ip", "netns", "add", name])
    run(["ip", "-n", name, "link", "set", "lo", "up"])


def add_bridges(cluster_tag: str, controller_netns: str, subnet: str, n_rails: int) -> None:
    """Create a bridge for each rail in the controller's namespace.

    A link, whose name on this host is the cluster's tag, connects the first bridge to this host.
    """
    _ip(
        f"link add {cluster_tag} mtu {MTU_B} type veth peer name host0 mtu {MTU_B}"
        f" netns {controller_netns}\n"
        f"address add {subnet}.253/24 dev {cluster_tag}\n"
        f"link set {cluster_tag} up\n"
    )
    for bridge in BRIDGES[:n_rails]:
        _ip(f"link add {bridge} mtu {MTU_B} type bridge\nlink set {bridge} up\n", controller_netns)
    bridge = BRIDGES[0]
    _ip(
        f"address add {subnet}.254/24 dev {bridge}\nlink set host0 master {bridge} up\n",
        controller_netns,
    )


def connect_node(
    controller_netns: str, node_netns: str, node_index: int, subnet: str, n_rails: int
) -> None:
    """Connect a node to the bridge of each rail, by an interface in the node's namespace."""
    controller_commands, node_commands = connection_commands(
        node_netns, node_index, subnet, n_rails
    )
    _ip(controller_commands, controller_netns)
    _ip(node_commands, node_netns)


def connection_commands(
    node_netns: str, node_index: int, subnet: str, n_rails: int
) -> tuple[str, str]:
    """Return the commands of `ip -batch` in the namespaces of the controller and of the node.

    The last number of the node's address is its index, on every rail.
    """
    controller_commands = node_commands = ""
    first, second, third = subnet.split(".")
    for rail, bridge in enumerate(BRIDGES[:n_rails]):
        port, interface = f"port{node_index}r{rail}", f"eth{rail}"
        address = f"{first}.{int(second) + rail}.{third}.{node_index}/24"
        controller_commands += (
            f"link add {port} mtu {MTU_B} type veth"
            f" peer name {interface} mtu {MTU_B} netns {node_netns}\n"
            f"link set {port} master {bridge} up\n"
        )
        node_commands += f"address add {address} dev {interface}\nlink set {interface} up\n"
    return controller_commands, node_commands


def connect_tap(controller_netns: str, tap: str, bridge: str) -> None:
    """Add a tap to a bridge, for a virtual machine in the controller's namespace."""
    _ip(
        f"tuntap add {tap} mode tap\nlink set {tap} mtu {MTU_B} master {bridge} up\n",
        controller_netns,
    )


def _ip(commands: str, netns: str | None = None) -> None:
    """Run lines of `ip -batch` on this host, or in a network namespace."""
    options = ["-n", netns] if netns else []
    run(["ip", *options, "-batch", "-"], stdin=commands)


def remove(cluster_tag: str, namespaces: list[str], made_netns_folder: bool) -> list[str]:
    """Remove a cluster's link and its namespaces, and return what was removed.

    No process may run in the namespaces. If `made_netns_folder` is true, the folder of namespaces
    is removed, too, once it is empty.
    """
    removed = []
    if Path(f"/sys/class/net/{cluster_tag}").exists():
        # The kernel removes a namespace and its links only some time after the namespace's last
        # process has ended. So this link is deleted explicitly.
        run(["ip", "link", "delete", cluster_tag])
        removed.append(f"link {cluster_tag}")
    for name in namespaces:
        run(["ip", "netns", "delete", name])
        removed.append(f"namespace {name}")
    if made_netns_folder and NETNS.is_dir() and not any(NETNS.iterdir()):
        # When `ip` created the first namespace on this host, it mounted this folder onto itself.
        with suppress(MachineError, OSError):
            run(["umount", str(NETNS)])
            NETNS.rmdir()
    return removed
