"""The table of needs: who needs what, how it shows on this host, and what to do.

Rows are in the order in which to fix what they find.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from conductor import counters
from conductor.injectors import INJECTORS
from nimc.possible import reservation
from nimc.possible.facts import Facts
from nimc.possible.finding import Finding, gap, required
from nimc.possible.matrix import Matrix, missing_nodes
from nimc.possible.reframe import find_reframe
from nimc.possible.settings import ReframeSettings
from records.commands import command, setup_command
from records.errors import InputError, MachineError, NimcError
from records.groups import grouped
from records.machine import devices, fabrics, host
from records.machine.devices import Device, Port
from records.machine.host import Host
from records.machine.program import version_of
from records.machine.site import Machine
from records.programs import ask
from records.slurm import client
from records.slurm.options import SCHEDULERS
from records.slurm.parse import option_values, partition_in
from records.text import some
from reframe_tests.spack.externals import compilers, without_compiler
from reframe_tests.spack.folders import layout
from reframe_tests.spack.settings import load
from reframe_tests.spack.setup import find_spack
from reframe_tests.tools import TOOLS

_OPENMP = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n"
#: STREAM's rule: every array at least this many times the last-level caches; it has three.
_STREAM_MULTIPLE = 4
_STREAM_ARRAYS = 3
#: Most cores, or workloads, that a finding names.
_NAMED = 6


def c_compiler(*, needed: bool) -> Finding:
    """A C compiler whose OpenMP programs run; STREAM needs one."""
    name, what = os.environ.get("CC") or "cc", "C compiler with OpenMP"
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "openmp.c"), str(Path(folder, "openmp"))
        source.write_text(_OPENMP)
        built = ask([name, "-fopenmp", str(source), "-o", program], folder=Path(folder))
        ran = ask([program]) if built.ok else None
    if ran and ran.ok:
        return Finding(what, "ok", version_of(name) or name, needed=needed)
    detail = f"its program fails: {ran.reason}" if ran else f"{name}: {built.first}"
    remedy = "apt install gcc libc6-dev; dnf install gcc glibc-devel"
    return Finding(what, "missing", detail, remedy, needed)


def config_file(name: str, path: Path, settings: ReframeSettings) -> Finding:
    """Whether the machine's configuration is valid, and ReFrame accepts it."""
    what = f"configs/{name}.py"
    if not path.is_file():
        remedy = "copy configs/example_slurm.py and adapt it, see docs/add-a-machine.md"
        return gap(what, "no such file", remedy, needed=True)
    if settings.fault:
        where = f"line {settings.fault_line}: " if settings.fault_line else ""
        return gap(what, f"{where}{settings.fault}", "fix the file", needed=True)
    try:
        reframe = find_reframe()
    except NimcError as error:
        return gap(what, str(error), f"`{setup_command()}`", needed=True)
    shown = ask([reframe, "-C", str(path), "--system", name, "--show-config=systems"])
    if not shown.ok:
        return gap(what, shown.last, "fix the file", needed=True)
    names = ", ".join(f"{part['name']} ({part['scheduler']})" for part in settings.partitions)
    return Finding(what, "ok", f"ReFrame accepts it; partitions: {names}", needed=True)


def site_file(facts: Facts) -> Finding:
    """Whether the machine's site file is valid."""
    what, site = f"site/{facts.name}.yaml", facts.site
    if site is None:
        return gap(what, facts.site_fault, "see site/example_slurm.yaml", needed=True)
    detail = f"origins: {site.origins.policy}; injector: {site.injector}"
    return Finding(what, "ok", detail, needed=True)


def cores(site: Machine) -> Finding:
    """Whether there are enough cores where application and origin share a host."""
    try:
        application, origin = site.split_cpus()
    except InputError as error:
        remedy = "use a host, or a job, with at least two cores"
        return gap("cores", str(error), remedy, needed=True)
    detail = f"application on {some(application, _NAMED)}, origin on {some(origin, _NAMED)}"
    if not origin:
        detail = f"origins are other nodes ({site.origins.policy}); all cores are the application's"
    return Finding("cores", "ok", detail, needed=True)


def memory(site: Machine) -> Finding:
    """Whether STREAM's arrays can be as large as its rule requires."""
    try:
        wanted_b = _STREAM_ARRAYS * _STREAM_MULTIPLE * site.llc_b()
        memory_b = site.memory_b()
    except InputError as error:
        lack, _, remedy = str(error).partition("; allowed: ")
        # On a shared host all writes are larger than the caches.
        needed = site.origins.policy == "same_host"
        return gap("memory", lack, f"set {remedy}", needed=needed)
    share_b = site.memory_share * memory_b
    detail = (
        f"STREAM needs {wanted_b / 2**30:.2f} GiB (arrays of {_STREAM_MULTIPLE} times the"
        f" last-level caches); allowed: {share_b / 2**30:.2f} of {memory_b / 2**30:.2f} GiB"
    )
    if wanted_b <= share_b:
        return Finding("memory", "ok", detail)
    return gap("memory", f"{detail}: its arrays are smaller, and samples note it")


def writes(site: Machine) -> list[Finding]:
    """What the site file does not say about writes from other nodes, and the consequence."""
    if site.origins.policy == "same_host":
        return []
    costs = {
        "device": "no device counts what arrives, so writes are not verified",
        "interface": "agents use the address of the first node's host name",
        "nic": "the number of origins of short writes cannot follow from the link",
    }
    what = f"keys of site/{site.name}.yaml"
    unset = [f"no {key}: {cost}" for key, cost in costs.items() if getattr(site, key) is None]
    if unset:
        remedy = f"see site/example_slurm.yaml for the keys of site/{site.name}.yaml"
        return [gap(what, "; ".join(unset), remedy)]
    counted = f"{site.device} is to count them, which --in-job reads on nodes"
    return [Finding(what, "ok", f"{counted}; agents over {site.interface}")]


def targets(site: Machine, partitions: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """A partition that is missing, or whose targets would come from the origins' reservation."""
    names, reserved = [part["name"] for part in partitions], site.origins.reservation
    if partitions and site.partition and site.partition not in names:
        detail = f"partition {site.partition} of site/{site.name}.yaml is not in configs/"
        return [gap("targets", detail, f"one of {', '.join(names)}", needed=True)]
    wrong = [
        part["name"]
        for part in partitions
        if reserved and reserved in option_values(part.get("access", []), "reservation")
    ]
    if not wrong:
        return []
    detail = f"{', '.join(wrong)}: access has --reservation={reserved}, which is for the origins"
    return [gap("targets", detail, "remove it from access", needed=True)]


def environments(cells: Matrix, config: Path) -> list[Finding]:
    """Workloads that can run nowhere; the matrix has the reasons."""
    nowhere = list(cells.nowhere)
    if not nowhere:
        return []
    all_of_them = len(nowhere) == len({cell.workload for cell in cells.cells})
    remedy = f"see what runs where, then correct {config.name} or get what is missing"
    state: Literal["limited", "missing"] = (
        "missing" if all_of_them or uncompiled(cells) else "limited"
    )
    detail = f"none can run {some(nowhere, _NAMED)}"
    return [Finding("environments", state, detail, remedy, needed=True)]


def uncompiled(cells: Matrix) -> bool:
    """Whether a workload runs nowhere since a compiler that the configuration names is missing."""
    return any("no compiler " in reason for reason in cells.nowhere.values())


def sharing(
    partitions: Sequence[Mapping[str, Any]], environment: Mapping[str, str]
) -> list[Finding]:
    """Slurm partitions that do not request whole nodes: other jobs may load a target's memory."""
    wrong, whole = [], client.whole_node_partitions(environment)
    for part in partitions:
        values = set(option_values(part.get("access", []), "exclusive"))
        # Of one's own jobs, or of a group's, others may share the node.
        is_shared = part["scheduler"] in SCHEDULERS and not values - {"user", "mcs"}
        if is_shared and partition_in(part.get("access", [])) not in whole:
            wrong.append(part["name"])
    if not wrong:
        return []
    detail = f"{', '.join(wrong)}: access has no --exclusive, so other jobs may share a target"
    return [gap("whole nodes", detail, "add it")]


def origins(site: Machine, environment: Mapping[str, str]) -> list[Finding]:
    """Whether the machine's origins can be had: from a reservation now, or from their partition."""
    try:
        held = reservation.check(site, site.origins.nodes, needed_s=0)
    except NimcError as error:
        remedy = f"`{command('origins', 'create', '--machine', site.name)}`"
        return [gap("origins", str(error), remedy, needed=True)]
    if held is not None:
        until = f"reserved until {held.end:%Y-%m-%d %H:%M}"
        if unsure := reservation.doubt(held):
            remedy = "access in configs/, and origins.access in site/: --account=NAME"
            return [Finding("origins", "limited", f"{until}; {unsure}", remedy, needed=True)]
        return [Finding("origins", "ok", until, needed=True)]
    if site.origins.policy != "hetjob" or not client.lists_nodes():
        return []
    with suppress(MachineError):  # Slurm does not answer: a finding of its own
        nodes = client.ask_nodes(site.origins.partition, environment)
        if lack := missing_nodes(nodes, site.origins.partition, site.origins.nodes):
            remedy = f"origins in site/{site.name}.yaml"
            return [gap("origins", lack, remedy, needed=True)]
    return []


def slurm(environment: Mapping[str, str], needed: bool) -> list[Finding]:
    """Slurm's commands, and whether its controller and accounting answer.

    `environment`: that in which ReFrame runs them, which the machine's configuration sets.
    """
    if absent := client.missing_commands():
        remedy = "apt install slurm-client; dnf install slurm"
        return [gap("slurm", f"no {', '.join(absent)} on PATH", remedy, needed=needed)]
    if not needed:
        return [Finding("slurm", "ok", "commands found; this machine does not use them")]
    version = version_of(client.SUBMIT) or client.SUBMIT
    if fault := client.controller_fault(environment):
        detail = f"the controller does not answer: {fault}"
        return [gap("slurm", detail, "start slurmctld, or set SLURM_CONF", needed=True)]
    if fault := client.accounting_fault(environment):
        return [gap("slurm", f"{version}; {fault}", client.ACCOUNTING_REMEDY, needed=True)]
    return [Finding("slurm", "ok", f"{version}; controller and accounting answer", needed=True)]


def peculiarities(here: Host) -> Iterator[Finding]:
    """What of a host's hardware restricts what can be said of it."""
    if host.processor_family(here.processor) is None:
        words = host.processor_words(here.processor)
        detail = f"{words} ({here.cpu_model}) is in no table: tools choose no counters for it"
        yield gap("processor", detail, "add it to FAMILIES of records/machine/host.py")
    if here.memory_side_cache_b:
        size = f"{here.memory_side_cache_b / 2**30:g} GiB"
        detail = f"{size} lie before the memory: writes and applications meet it first"
        yield gap("memory-side cache", detail, "flat mode in the firmware shows both apart")


def of_shared_host(site: Machine, here: Host) -> Iterable[Finding]:
    """The same of the host on which targets run; of nodes, a job finds it."""
    return peculiarities(here) if site.origins.policy == "same_host" else ()


def rdma(here: Host, site: Machine) -> list[Finding]:
    """RDMA devices of this host; those of compute nodes may differ."""
    used = used_devices(here, site) if site.origins.policy == "same_host" else ()
    rows = [row for row in used if row.state != "ok"]
    if not here.rdma:
        emulated = command("minicluster", "up", "--fabric", "rxe")
        remedy = f"load the device's driver; without hardware: `{emulated}`"
        return [*rows, gap("RDMA devices", "none on this host", remedy)]
    for device in here.rdma:
        what, words = f"RDMA device {device.name}", [port_words(port) for port in device.ports]
        reading = counters.read(device.name, "received")
        counted = reading.name if reading else f"none ({counters.why_none(device.name)})"
        counted = f"byte counter: {counted}"
        about = [device.transport, f"firmware {device.firmware or 'unknown'}", *words, counted]
        detail = ", ".join(about)
        if device.ports and all(port.state != "ACTIVE" for port in device.ports):
            rows.append(gap(what, detail, "connect a port, or start the subnet manager"))
        else:
            rows.append(Finding(what, "ok", detail))
    return rows


def unseen_nodes(site: Machine | None) -> list[Finding]:
    """That nobody looked at the nodes of a cluster, whose devices and modules this host lacks."""
    if site is None or site.origins.policy == "same_host":
        return []
    remedy = f"`{command('doctor', '--machine', site.name, '--in-job')}`"
    return [gap("nodes", "not looked at: their devices, modules and limits", remedy)]


def used_devices(here: Host, site: Machine) -> Iterator[Finding]:
    """Whether a host has each device and rail of the site file, with an active port."""
    listed = [
        f"{device.name} at {device.pci}" if device.pci else device.name for device in here.rdma
    ]
    present = ", ".join([*listed, *(interface.name for interface in here.interfaces)]) or "none"
    remedy = f"bring its link up, or correct device and rails in site/{site.name}.yaml"
    for name in site.devices:
        device = devices.named(name, here.rdma)
        interface = next(
            (candidate for candidate in here.interfaces if candidate.name == name), None
        )
        detail, lack = "", f"no RDMA device and no interface that is up; there are: {present}"
        if device:
            kind = f"{device.transport} at {device.pci}" if device.pci else device.transport
            detail = ", ".join([kind, *map(port_words, device.ports)])
            reason = inactive(name, here.rdma)
            lack = reason and f"{detail}: {reason}"
        elif interface:
            detail, lack = f"up{gbit_s(interface.rate_b_s)}", ""
        yield required(f"device {name}", lack, detail, remedy)


def inactive(wanted: str, present: Sequence[Device]) -> str:
    """Why the writers' port of a device passes nothing, and which would; empty if it is active."""
    device, number = devices.named(wanted, present), devices.split(wanted).port
    if device is None or not device.ports:
        return ""
    port = device.port(number)
    if port and port.state in ("ACTIVE", "unknown"):
        return ""
    active = [port.number for port in device.ports if port.state == "ACTIVE"]
    names = ", ".join(str(devices.split(wanted)._replace(port=number)) for number in active)
    state = f"port {number} is {port.state}" if port else f"no port {number}"
    return f"{state}; active: {names or 'none'}"


def port_words(port: Port) -> str:
    """Number, state and rate of a device's port."""
    return f"port {port.number} {port.state}{gbit_s(port.rate_b_s)}"


def gbit_s(rate_b_s: float | None) -> str:
    """Rate of a port or an interface, with what separates it from the words before."""
    return f" {rate_b_s * 8 / 1e9:g} Gbit/s" if rate_b_s else ", rate unknown"


def injectors(site: Machine | None) -> list[Finding]:
    """Every injector; the one of the site file is required if writers run on this host."""
    rows = []
    apart = site is not None and site.origins.policy != "same_host"
    for name, injector in INJECTORS.items():
        used = site is not None and name == site.injector
        device = site.device if site and apart else None
        fabric = fabrics.by_name(device) if device else None
        reason = injector.lacks(fabric) or injector.missing(device)
        doubt = injector.doubt() if apart and injector.direction == "write" else None
        if reason is None and doubt:
            detail, _, remedy = doubt.partition(": ")
            rows.append(gap(f"injector {name}", detail, remedy))
            continue
        if reason is None:
            detail = "ready, used by this machine" if used else "ready"
            rows.append(Finding(f"injector {name}", "ok", detail, needed=used))
            continue
        lack, _, remedy = reason.partition(": ")
        lack += " on this host; compute nodes must have it" if used and apart else ""
        rows.append(gap(f"injector {name}", lack, remedy, needed=used and not apart))
    return rows


def spack(machine: str) -> Finding:
    """Used by the workloads that `nimc spack` builds, with the compilers that it knows."""
    spack_layout, settings = layout(machine), None
    with suppress(InputError):
        settings = load(spack_layout)
    try:
        root = find_spack() or (Path(settings.spack) if settings else None)
    except NimcError as error:
        return gap("spack", str(error), "unset SPACK_ROOT, or correct it")
    if root is None:
        return gap(
            "spack", "no Spack found", f"`{command('spack', 'setup', '--machine', machine)}`"
        )
    detail = f"{ask([str(root / 'bin' / 'spack'), '--version']).last} at {root}"
    if settings is None:
        return Finding("spack", "ok", f"{detail}, not set up for {machine}")
    try:
        lack = without_compiler(compilers(spack_layout, settings), machine)
    except InputError as error:
        return gap("spack", str(error), "correct the file")
    if lack:
        return gap("spack", f"{detail}; {lack[0]}", lack[1])
    return Finding("spack", "ok", detail)


def tools() -> list[Finding]:
    """Every tool that can wrap the ranks; one whose forms all lack the same by its name alone."""
    rows = []
    forms = grouped((name.partition(":")[0], name) for name in TOOLS)
    for tool, of_tool in forms.items():
        reasons = grouped((TOOLS[name].missing() or "", name) for name in of_tool)
        for reason, names in reasons.items():
            what = f"tool {tool if len(reasons) == 1 else ', '.join(names)}"
            lack, _, remedy = reason.partition(" (")
            absent = gap(what, lack, remedy.removesuffix(")"))
            rows.append(absent if reason else Finding(what, "ok", "ready"))
    return rows


# The table.


#: Who needs it: this program itself; every campaign, whatever its workloads; or some workloads,
#: writers, or levels of factors, of which a plan finds those of its cases.
Who = Literal["nimc", "campaigns", "some"]


@dataclass(frozen=True)
class Need:
    """A row of the table."""

    who: Who
    #: How it shows, and what to do.
    find: Callable[[Facts], Iterable[Finding]]


def _python(_facts: Facts) -> list[Finding]:
    version = f"{sys.version.split()[0]} at {sys.executable}"
    return [Finding("python", "ok", version, needed=True)]


def _files(facts: Facts) -> list[Finding]:
    return [config_file(facts.name, facts.config, facts.settings), site_file(facts)]


def _checks(facts: Facts) -> Iterator[Finding]:
    """What makes the checks, or the programs of the site file, unreadable."""
    if facts.checks_fault:
        yield gap("checks", facts.checks_fault, "fix what it names", needed=True)


def _nodes(facts: Facts) -> Sequence[Finding]:
    return facts.of_nodes or unseen_nodes(facts.site)


def _of_site(find: Callable[[Machine, Facts], Iterable[Finding]]) -> Callable[..., Any]:
    """Of a machine with a valid site file."""
    return lambda facts: find(facts.site, facts) if facts.site else ()


TABLE = (
    Need("nimc", _python),
    Need("nimc", _files),
    Need("campaigns", _of_site(lambda site, _: [cores(site), memory(site)])),
    Need("campaigns", _of_site(lambda site, facts: targets(site, facts.partitions))),
    Need(
        "campaigns",
        _of_site(lambda _, facts: slurm(facts.settings.environment, needed=facts.uses_slurm)),
    ),
    Need("campaigns", _of_site(lambda site, facts: origins(site, facts.settings.environment))),
    Need("campaigns", _of_site(lambda site, facts: rdma(facts.host, site))),
    Need("campaigns", _of_site(lambda site, facts: of_shared_host(site, facts.host))),
    Need("some", _of_site(lambda site, _: writes(site))),
    Need("nimc", _checks),
    Need("some", lambda facts: [c_compiler(needed=uncompiled(facts.matrix_of_targets))]),
    Need("some", lambda facts: environments(facts.matrix_of_targets, facts.config)),
    Need("some", lambda facts: sharing(facts.partitions, facts.settings.environment)),
    Need("some", lambda facts: injectors(facts.site)),
    Need("some", lambda _: tools()),
    Need("some", lambda facts: [spack(facts.name)]),
    Need("some", _nodes),
)
