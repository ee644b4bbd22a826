"""Up, status and down of a minicluster."""

from __future__ import annotations

import os
import platform
import shutil
import time
from dataclasses import dataclass, field, replace

from analysis.errors import InputError, MachineError
from analysis.replacing import replace_text
from campaigns.minicluster import (
    cgroups,
    containers,
    daemons,
    machine_file,
    namespaces,
    needs,
    slurm_conf,
    state,
    veth,
    vm,
)
from campaigns.minicluster.daemons import CONTROL
from campaigns.minicluster.layout import ClusterLayout
from campaigns.minicluster.locks import locked, locked_host
from campaigns.minicluster.shell import run
from campaigns.minicluster.slurm_conf import Hardware
from campaigns.minicluster.spec import Spec
from campaigns.minicluster.state import State

#: Memory that a guest's kernel takes.
GUEST_KERNEL_MIB = 128
#: How long nodes may take until Slurm shows them idle, seconds; emulated ones take minutes.
IDLE_S = {"veth": 60.0, "rxe": 300.0}


@dataclass(frozen=True)
class Status:
    """State of a cluster. `state` is None if there is none."""

    state: State | None
    #: Whether slurmctld and slurmdbd answer.
    controller: bool = False
    accounting: bool = False
    #: Node -> Slurm's state, `unknown` if Slurm does not answer.
    nodes: dict[str, str] = field(default_factory=dict)
    #: Node -> id of process 1 of its container, or of its QEMU; killing it switches the node off.
    #: None if it is off.
    pids: dict[str, int | None] = field(default_factory=dict)

    @property
    def healthy(self) -> bool:
        """Whether all of it works, so that `up` need not replace it."""
        return (
            self.state is not None
            and self.state.phase == "up"
            and self.controller
            and self.accounting
            and all(pid is not None for pid in self.pids.values())
            and all(not s.startswith(("down", "unk", "fail")) for s in self.nodes.values())
        )


def up(spec: Spec, layout: ClusterLayout) -> tuple[State, bool]:
    """Start a cluster; return its state and whether it was already up.

    A healthy cluster with the same options is kept; a damaged or half-started one is replaced.
    If this fails or is interrupted, everything is removed.
    """
    _require_root()
    needs.require(spec.fabric)
    state.claim(layout.state)
    with locked(layout.state / state.MARKER):
        now = _look(layout)
        if now.state is not None and now.healthy:
            if now.state.spec != spec:
                raise InputError(
                    f"a different minicluster is up in {layout.state}: "
                    "take it down first, or give another --state"
                )
            return now.state, True
        _clear(layout, keep_folder=True)
        try:
            return _start(spec, layout), False
        except BaseException:
            _clear(layout)
            raise


def status(layout: ClusterLayout) -> Status:
    """State of the cluster of a state folder."""
    return _look(layout)


def down(layout: ClusterLayout) -> list[str]:
    """Remove a cluster, or the rest of one; return what was removed."""
    _require_root()
    state.require_cluster(layout.state)
    with locked(layout.state / state.MARKER):
        return _clear(layout)


def _start(spec: Spec, layout: ClusterLayout) -> State:
    began_s = time.monotonic()
    _make_folders(layout)
    members = spec.members()
    boxes = [CONTROL] + ([n.name for n in members] if spec.fabric == "veth" else [])
    kind, groups = cgroups.make(layout.tag, boxes)
    cpus, memory_mib = _size(spec)
    with locked_host():
        subnet = _subnet(layout)
        ours = namespaces.owns_netns_folder()
        current = State(spec, "starting", subnet, cpus, memory_mib, made_netns_folder=ours)
        state.write(layout, current)
        for name in boxes:
            namespaces.add_namespace(layout.netns(name))
        namespaces.add_bridge(layout.tag, layout.netns(CONTROL), subnet)
    tracking: cgroups.Kind = kind if spec.fabric == "veth" else "v2"
    _write_files(spec, layout, subnet, Hardware(cpus, memory_mib, tracking))
    daemons.make_munge_key(layout)
    check = _nothing
    if spec.fabric == "rxe":
        # Booting takes longest: everything else is started meanwhile.
        machines = vm.start_nodes(spec, layout, subnet)
        current = replace(current, accelerator=machines.accelerator)
        check = machines.check
    containers.launch(layout, CONTROL, kind, groups.get(CONTROL))
    containers.wait_ready(layout, CONTROL)
    daemons.begin_database(layout)
    daemons.start_munge(layout)
    if spec.fabric == "veth":
        veth.start_nodes(layout, members, subnet, kind, groups)
    daemons.start_accounting(layout)
    daemons.start_controller(layout)
    if spec.fabric == "veth":
        daemons.start_slurmds(layout, members)
    daemons.wait_idle(layout, members, IDLE_S[spec.fabric], check)
    current = replace(current, phase="up", up_took_s=round(time.monotonic() - began_s, 2))
    state.write(layout, current)
    return current


def _nothing() -> None:
    """Containers need no check: entering one that has ended fails."""


def _size(spec: Spec) -> tuple[int, int]:
    """Processors and memory (MiB) that slurm.conf gives each node."""
    if spec.fabric == "rxe":
        return spec.numa * spec.cores, spec.memory_mib - GUEST_KERNEL_MIB
    page_b = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return os.cpu_count() or 1, max(512, page_b // 2**20 // (spec.nodes + 1))


def _subnet(layout: ClusterLayout) -> str:
    preferred = int(layout.tag.rpartition("-")[2], 16) % 256
    return namespaces.pick_subnet(run(["ip", "-o", "address"]), preferred)


def _make_folders(layout: ClusterLayout) -> None:
    for name in ("run", "log", "spool", "tmp", "munge"):
        (layout.state / name).mkdir()


def _write_files(spec: Spec, layout: ClusterLayout, subnet: str, hardware: Hardware) -> None:
    for name, text in slurm_conf.render(
        spec, layout, subnet, hardware, this_host=platform.node()
    ).items():
        replace_text(layout.state / name, text, 0o600 if name == "slurmdbd.conf" else 0o644)
    machine = machine_file.render(spec, hardware.cpus, hardware.memory_mib)
    replace_text(layout.machine_file, machine)
    replace_text(
        layout.env_sh,
        "# Source this to use the minicluster.\n"
        f"export SLURM_CONF={layout.slurm_conf}\n"
        f"export NIMC_MINICLUSTER={layout.state}\n",
    )


def _look(layout: ClusterLayout) -> Status:
    current = state.read(layout)
    if current is None:
        return Status(None)
    controller = daemons.controller_answers(layout)
    states = daemons.node_states(layout) if controller else {}
    names = [n.name for n in current.spec.members()]
    power = veth if current.spec.fabric == "veth" else vm
    return Status(
        current,
        controller=controller,
        accounting=daemons.accounting_answers(layout),
        nodes={name: states.get(name, "unknown") for name in names},
        pids={name: power.pid(layout, name) for name in names},
    )


def _clear(layout: ClusterLayout, keep_folder: bool = False) -> list[str]:
    """Stop and remove everything with this layout's name.

    `keep_folder` keeps the empty state folder, which is locked.
    """
    before = state.read(layout)
    names = namespaces.named(layout.tag)
    removed = []
    if killed := namespaces.kill_all(names):
        removed.append(f"{killed} processes")
    with locked_host():
        removed += namespaces.remove(
            layout.tag, names, before is not None and before.made_netns_folder
        )
    removed += cgroups.remove(layout.tag)
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
