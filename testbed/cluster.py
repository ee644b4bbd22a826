"""Starts a minicluster, shows its status, and removes it."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from records.errors import InputError, MachineError
from records.files import replace_text
from records.machine import host
from records.slurm.options import CONFIGURATION_VARIABLE
from testbed import containers, daemons, namespaces, needs, state, vm
from testbed.daemons import CONTROLLER, Hardware
from testbed.shell import run
from testbed.spec import STATE_VARIABLE, ClusterLayout, Fabric, Spec
from testbed.state import State, locked

# `machine.yaml` in the state folder: the part of the site file that depends on the cluster.


#: Fabric -> injector and device of the writers.
_WRITERS: dict[Fabric, tuple[str, str]] = {"veth": ("ucx", "eth0"), "rxe": ("perftest", "rxe0")}
#: Fabric -> share of a node's memory for STREAM. An emulated processor is too slow for arrays as
#: large as STREAM's rule requires.
_MEMORY_SHARE: dict[Fabric, float] = {"veth": 0.5, "rxe": 0.03}

#: Limits for nodes that share this host's processors. An application slows the writers as well, and
#: uncontended rates vary: on one idle host, rates from 1.5 to 3.4 GB/s were seen over veth. Slurm's
#: own messages, 50 to 70 kB a run, go over the first rail.
_SHARED_PROOF_LIMITS = {"min_share": 0.1, "max_share": 4, "rail_share": 0.1}
#: Limits for emulated processors. Rows of one second are printed several seconds late, and resent
#: packets are counted twice. The processor receives every byte, so for seconds the conductor may
#: get no processor time, and `mpi_put` may pause for up to 1.1 s. The set-up of a connection takes
#: seconds, and varies by a second or two. A short write gets so few messages that it never ends
#: late. So most end early, and up to a quarter of the planned writing may be missing.
_EMULATED_PROOF_LIMITS = {
    **_SHARED_PROOF_LIMITS,
    "counter_share": 0.5,
    "late_rows": 10,
    "silent": "3s",
    "pause": "5s",
    "write_tolerance": "4s",
    "write_share": 0.25,
}
#: Caveat of figures from nodes with several NUMA nodes.
_EMULATED_NUMA = (
    "NUMA nodes are emulated by QEMU: a topology only, the memory of both is the same host memory"
)
#: Caveat of figures if the machine file gives the nodes together more cores than the host has.
_SHARED_CORES = "{} nodes count as {} cores each, and share the {} cores of one host"


def render_machine_file(spec: Spec, cpus: int, memory_mib: int) -> str:
    """Return the text of `machine.yaml`.

    With veth, a node has `--cores` cores. By default it has its share of the host's cores, since
    all nodes run at the same time. With rxe, a node is a virtual machine with `cpus` cores of its
    own. Raises InputError if `--cores` exceeds the cores of the host.
    """
    cores = cpus
    if spec.fabric == "veth":
        if spec.cores > cpus:
            raise InputError(f"--cores {spec.cores}: this host has {cpus}; allowed: at most {cpus}")
        cores = spec.cores if spec.cores > 1 else max(1, cpus // spec.nodes)
    injector, device = _WRITERS[spec.fabric]
    llc_b = host.detect().llc_total_b
    record: dict[str, Any] = {
        "nodes": spec.nodes,
        "injector": injector,
        "device": device,
        "memory_share": _MEMORY_SHARE[spec.fabric],
        "proof": _EMULATED_PROOF_LIMITS if spec.fabric == "rxe" else _SHARED_PROOF_LIMITS,
        "facts": {
            "cores": cores,
            "sockets": spec.numa,
            "numa_nodes": spec.numa,
            "nic_node": 0,  # soft-RoCE belongs to no NUMA node, so the first one is named
            "llc": f"{llc_b}B" if llc_b else None,
            "memory": f"{memory_mib}MiB",
        },
    }
    if spec.rails > 1:
        # MPI uses tcp (site/minicluster/task-prolog.sh), so its rails are network interfaces.
        # Interfaces in namespaces belong to no NUMA node.
        record["rails"] = [
            {
                "device": f"{device.removesuffix('0')}{i}",
                "numa_node": i % spec.numa if spec.fabric == "rxe" else None,
                "mpi_device": f"eth{i}",
            }
            for i in range(spec.rails)
        ]
    if spec.fabric == "veth" and cores * spec.nodes > cpus:
        record["caveats"] = [_SHARED_CORES.format(spec.nodes, cores, cpus)]
    if spec.numa > 1:
        record["caveats"] = [_EMULATED_NUMA]
    if spec.origins:
        record["origins"] = {"policy": "hetjob", "partition": "origin", "nodes": spec.origins}
    return yaml.safe_dump(record, sort_keys=False)


#: Memory that the kernel of a virtual machine uses.
GUEST_KERNEL_MIB = 128
#: Time within which Slurm must show the nodes idle, seconds. Emulated nodes take minutes.
IDLE_TIMEOUT_S: dict[Fabric, float] = {"veth": 60.0, "rxe": 300.0}


@dataclass(frozen=True)
class Status:
    """Status of a cluster."""

    #: State of the cluster; None if there is no cluster.
    state: State | None
    #: True if slurmctld answers.
    controller: bool = False
    #: True if slurmdbd answers.
    accounting: bool = False
    #: Node -> Slurm's state, `unknown` if Slurm does not answer.
    nodes: dict[str, str] = field(default_factory=dict)
    #: Node -> PID of process 1 of its container, or of its QEMU; None if the node is off. Killing
    #: this process switches the node off.
    pids: dict[str, int | None] = field(default_factory=dict)

    @property
    def healthy(self) -> bool:
        """Return whether all daemons and nodes run, so that `up` keeps the cluster.

        Nodes may be drained.
        """
        is_up = self.state is not None and self.state.phase == "up"
        all_on = all(pid is not None for pid in self.pids.values())
        bad_states = ("down", "unk", "fail")
        all_usable = not any(state.startswith(bad_states) for state in self.nodes.values())
        return is_up and self.controller and self.accounting and all_on and all_usable


def up(spec: Spec, layout: ClusterLayout) -> tuple[State, bool]:
    """Start a cluster; return its state and whether it was already up.

    A healthy cluster with the same options is kept. A damaged or half-started cluster is replaced.
    If the start fails or is interrupted, everything is removed. Raises InputError if a healthy
    cluster has other options, and MachineError if this process is not root or if a program is
    missing.
    """
    _require_root()
    needs.require(spec.fabric)
    with locked():
        state.claim(layout.state)
        old_status = status(layout)
        if old_status.state is not None and old_status.healthy:
            if old_status.state.spec != spec:
                raise InputError(
                    f"a different minicluster is up in {layout.state}: "
                    "take it down first, or give another --state"
                )
            return old_status.state, True
        _remove(layout, keep_folder=True)
        try:
            return _start(spec, layout), False
        except BaseException:
            _remove(layout)
            raise


def down(layout: ClusterLayout) -> list[str]:
    """Remove a cluster, complete or not; return what was removed."""
    _require_root()
    state.require_cluster(layout.state)
    with locked():
        return _remove(layout)


def _start(spec: Spec, layout: ClusterLayout) -> State:
    """Start all parts of a cluster; return its state."""
    began_s = time.monotonic()
    for name in ("run", "log", "spool", "tmp", "munge"):
        (layout.state / name).mkdir()
    members = spec.members()
    container_names = [CONTROLLER]
    if spec.fabric == "veth":
        container_names += [node.name for node in members]
    cgroup_kind, cgroups = containers.make_cgroups(layout.tag, container_names)
    if spec.fabric == "rxe":
        cpus, memory_mib = spec.numa * spec.cores, spec.memory_mib - GUEST_KERNEL_MIB
    else:
        this_host = host.detect()  # in a container or under `taskset`, less than the hardware
        cpus = len(this_host.usable_cpus)
        memory_mib = max(512, this_host.memory_b // 2**20 // (spec.nodes + 1))
    subnet = namespaces.pick_subnet(run(["ip", "-o", "address"]), layout.preferred_subnet)
    current = State(
        spec=spec,
        phase="starting",
        subnet=subnet,
        cpus=cpus,
        memory_mib=memory_mib,
        made_netns_folder=namespaces.owns_netns_folder(),
    )
    state.write(layout, current)
    for name in container_names:
        namespaces.add_namespace(layout.netns(name))
    namespaces.add_bridges(layout.tag, layout.netns(CONTROLLER), subnet, spec.rails)
    hardware = Hardware(cpus, memory_mib, cgroup_kind if spec.fabric == "veth" else "v2")
    files = daemons.render_slurm_conf(spec, layout, subnet, hardware, submit_host=platform.node())
    for name, text in files.items():
        replace_text(layout.state / name, text, 0o600 if name == "slurmdbd.conf" else 0o644)
    replace_text(layout.machine_file, render_machine_file(spec, cpus, memory_mib))
    replace_text(
        layout.env_sh,
        "# Source this to use the minicluster.\n"
        f"export {CONFIGURATION_VARIABLE}={layout.slurm_conf}\n"
        f"export {STATE_VARIABLE}={layout.state}\n",
    )
    daemons.make_munge_key(layout)
    # Containers need no check, since a command that enters an ended container fails.
    check_nodes: Callable[[], None] | None = None
    if spec.fabric == "rxe":
        # Booting takes longest, so the virtual machines are started first.
        accelerator, check_nodes = vm.start_nodes(spec, layout, subnet)
        current = replace(current, accelerator=accelerator)
    containers.launch(layout, CONTROLLER, cgroup_kind, cgroups.get(CONTROLLER))
    containers.wait_ready(layout, CONTROLLER)
    daemons.begin_database(layout)
    daemons.start_munge(layout)
    if spec.fabric == "veth":
        containers.start_nodes(layout, layout.netns(CONTROLLER), spec, subnet, cgroup_kind, cgroups)
    daemons.start_accounting(layout)
    daemons.start_controller(layout)
    if spec.fabric == "veth":
        daemons.start_slurmds(layout, members)
    daemons.wait_idle(layout, members, IDLE_TIMEOUT_S[spec.fabric], check_nodes)
    current = replace(current, phase="up", up_took_s=round(time.monotonic() - began_s, 2))
    state.write(layout, current)
    return current


def status(layout: ClusterLayout) -> Status:
    """Return the status of the cluster that belongs to a state folder."""
    current = state.read(layout)
    if current is None:
        return Status(None)
    controller = daemons.controller_answers(layout)
    states = daemons.node_states(layout) if controller else {}
    names = [node.name for node in current.spec.members()]
    backend = containers if current.spec.fabric == "veth" else vm
    return Status(
        current,
        controller=controller,
        accounting=daemons.accounting_answers(layout),
        nodes={name: states.get(name, "unknown") for name in names},
        pids={name: backend.pid(layout, name) for name in names},
    )


def _remove(layout: ClusterLayout, keep_folder: bool = False) -> list[str]:
    """Remove everything of a cluster; return what was removed.

    `keep_folder` keeps the state folder and its marker.
    """
    current = state.read(layout)
    made_netns_folder = current is not None and current.made_netns_folder
    names = namespaces.existing_namespaces(layout.tag)
    n_killed = namespaces.kill_all(names)
    removed = [f"{n_killed} processes"] if n_killed else []
    removed += namespaces.remove(layout.tag, names, made_netns_folder)
    removed += containers.remove_cgroups(layout.tag)
    if (layout.state / state.MARKER).exists():
        for entry in layout.state.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != state.MARKER:
                entry.unlink()
        removed.append(f"folder {layout.state}")
        if not keep_folder:
            (layout.state / state.MARKER).unlink()
            layout.state.rmdir()
    return removed


def _require_root() -> None:
    if os.geteuid() != 0:
        raise MachineError("minicluster: root is required (namespaces, links, control groups)")
