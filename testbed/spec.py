"""Options of a minicluster (fabric, nodes, origins), and its paths and names."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from records.errors import InputError
from records.files import require_owned

#: Names the state folder of the cluster that a shell uses.
STATE_VARIABLE = "NIMC_MINICLUSTER"

Fabric = Literal["veth", "rxe"]
Role = Literal["target", "origin"]

#: Nodes have the addresses .1 to .200 of the cluster's subnet. The controller has .254, this host
#: .253.
MAX_NODES = 200
#: With less, a virtual machine runs out of memory while slurmd starts a step.
MIN_MEMORY_MIB = 384
#: Allowed numbers of processors of a socket. QEMU runs each as a thread on this host's cores. With
#: three in each of two sockets, the emulated kernel hangs after it has started them (Linux 6.1,
#: QEMU 7.2).
SOCKET_CORES = (1, 2, 4, 8)


@dataclass(frozen=True)
class Node:
    """One node of the cluster."""

    name: str
    role: Role
    #: Host part of its address in the cluster's subnet, from 1.
    index: int


@dataclass(frozen=True, kw_only=True)
class Spec:
    """Valid options. `numa`, `memory_mib` and `shares` are only for virtual machines."""

    fabric: Fabric
    nodes: int
    origins: int
    #: NUMA nodes of a virtual machine.
    numa: int = 1
    #: With rxe, processors of each NUMA node of a virtual machine, which is a separate socket. With
    #: veth, cores of each node in the site file; 1 means its share of the host's cores.
    cores: int = 1
    memory_mib: int = 1024
    #: Network interfaces of a node; with rxe, each has a soft-RoCE device.
    rails: int = 1
    #: Folders to which virtual machines may write, besides the checkout and the state folder.
    shares: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        fabrics = get_args(Fabric)
        target_remains_text = "so that at least one of the nodes is a target"
        allowed = {
            "fabric": (self.fabric in fabrics, ", ".join(fabrics)),
            "nodes": (1 <= self.nodes <= MAX_NODES, f"1 to {MAX_NODES}"),
            "origins": (
                0 <= self.origins < self.nodes,
                f"0 to {self.nodes - 1}, {target_remains_text}",
            ),
            "numa": (self.numa in (1, 2), "1, 2"),
            "rails": (self.rails in (1, 2), "1, 2"),
            "cores": (self.cores in SOCKET_CORES, ", ".join(map(str, SOCKET_CORES))),
            "memory_mib": (self.memory_mib >= MIN_MEMORY_MIB, f"{MIN_MEMORY_MIB} MiB and more"),
        }
        for name, (is_allowed, allowed_values) in allowed.items():
            if not is_allowed:
                option = name.removesuffix("_mib")
                raise InputError(f"--{option} {getattr(self, name)}: allowed are {allowed_values}")
        if self.numa > 1 and self.fabric != "rxe":
            raise InputError(
                f"--numa {self.numa}: cannot be combined with --fabric veth, whose nodes share the"
                " host's memory; allowed: --fabric rxe"
            )

    def members(self) -> list[Node]:
        """Return the nodes in order; the last `origins` of them are origins."""
        first_origin = self.nodes - self.origins + 1
        nodes = []
        for index in range(1, self.nodes + 1):
            role: Role = "origin" if index >= first_origin else "target"
            nodes.append(Node(f"node{index}", role, index))
        return nodes

    def partitions(self) -> dict[str, list[str]]:
        """Return partition -> its nodes' names. Without origins there is no partition `origin`."""
        nodes = self.members()
        partitions = {
            "compute": [node.name for node in nodes if node.role == "target"],
            "origin": [node.name for node in nodes if node.role == "origin"],
            "all": [node.name for node in nodes],
        }
        return {name: members for name, members in partitions.items() if members}


#: The checkout that this package belongs to, and the folder of its scripts and templates.
CHECKOUT = Path(__file__).resolve().parents[1]
SITE_FOLDER = CHECKOUT / "site" / "minicluster"

#: Length of the longest path, below the state folder, of a socket that slurmstepd makes.
_LONGEST_SOCKET_LENGTH = len("/spool/node200/node200_1234567.4294967295")
#: Longest path of a Unix socket.
_MAX_PATH_LENGTH = 107
#: Beginning of the tag of every cluster.
_TAG_PREFIX = "nimc-"


def default_state() -> Path:
    """Return the default state folder, the same in all sessions of a user (`sudo`, `su`, SSH)."""
    return Path("/tmp") / f"nimc-minicluster-{os.getuid()}"


@dataclass(frozen=True)
class ClusterLayout:
    """Paths and names of the cluster of one state folder.

    All follow from the path of the folder. So `down` finds what `up` created, even if `up` died
    before it wrote anything.
    """

    state: Path

    @classmethod
    def from_state(cls, state: Path) -> ClusterLayout:
        """Return the layout of a folder, which need not exist.

        Raises InputError if its path is not allowed, or if it belongs to another user. The latter
        is refused, since anyone who can write to the folder can run programs as root.
        """
        require_owned(state, "--state")
        state = Path(os.path.realpath(state))
        max_length = _MAX_PATH_LENGTH - _LONGEST_SOCKET_LENGTH
        if len(str(state)) > max_length:
            raise InputError(
                f"--state {state}: allowed are paths of up to {max_length} "
                "characters, because Unix sockets are made in it"
            )
        if any(character.isspace() or character in "\"',=#%" for character in str(state)):
            raise InputError(f"--state {state}: allowed are paths without spaces and \"',=#%")
        return cls(state)

    @property
    def tag(self) -> str:
        """Return the prefix of names of namespaces, links and control groups.

        It is short, since names of links are limited.
        """
        return _TAG_PREFIX + hashlib.sha256(str(self.state).encode()).hexdigest()[:6]

    @property
    def preferred_subnet(self) -> int:
        """Return the number X of the subnet 10.77.X that is used if it is free."""
        return int(self.tag.removeprefix(_TAG_PREFIX), 16) % 256

    def netns(self, name: str) -> str:
        """Return the name of a container's network namespace."""
        return f"{self.tag}-{name}"

    @property
    def state_json(self) -> Path:
        """Return the file that has the state (`testbed.state`)."""
        return self.state / "state.json"

    @property
    def env_sh(self) -> Path:
        """Return the file that a shell sources to use the cluster."""
        return self.state / "env.sh"

    @property
    def machine_file(self) -> Path:
        """Return the file that `site/minicluster.yaml` includes."""
        return self.state / "machine.yaml"

    @property
    def slurm_conf(self) -> Path:
        """Return the configuration of all daemons and clients."""
        return self.state / "slurm.conf"

    @property
    def munge_socket(self) -> Path:
        """Return Munge's socket for clients on this host and the control daemons."""
        return self.state / "munge" / "munge.sock"

    def log(self, name: str) -> Path:
        """Return the log of a daemon, container or virtual machine."""
        return self.state / "log" / f"{name}.log"
