"""The table of needs: what campaigns on a machine need, and the functions that look for it.

A function that is named after a subject (`cores`, `memory`, `slurm`, ...) returns the findings
about this subject. A finding has the state of the subject and, if it has a fault, a remedy. Users
should fix faults in the order of the table.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from conductor import counters
from conductor.injectors import INJECTORS
from nimc.readiness import reservation
from nimc.readiness.facts import Facts
from nimc.readiness.finding import HostFinding, fault_finding, required_finding
from nimc.readiness.matrix import (
    Matrix,
    job_nodes,
    nodes_of_origins,
    nodes_of_targets,
    origin_shortage,
)
from nimc.readiness.reframe import find_reframe, reframe_environment
from nimc.readiness.reframe_config import ReframeSettings, target_partitions
from records.block_plan import OriginPolicy
from records.commands import command, setup_command
from records.errors import InputError, NimcError
from records.groups import grouped
from records.machine import devices, fabrics, host
from records.machine.devices import Device, Port
from records.machine.host import Host
from records.machine.program import version_of
from records.machine.site import Machine
from records.programs import ask
from records.slurm import client
from records.slurm.options import SCHEDULERS, SQUEUE_SCHEDULER, named_partition, option_values
from records.slurm.parse_nodes import always_shared_partitions, whole_node_partitions
from records.text import first_names
from reframe_tests.spack.externals import compiler_fault_and_remedy, compilers
from reframe_tests.spack.folders import layout
from reframe_tests.spack.settings import load_settings
from reframe_tests.spack.setup import find_spack
from reframe_tests.tools import TOOLS

#: Source of a small program that tells whether OpenMP works.
_OPENMP = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n"
#: Number of arrays of STREAM.
_STREAM_ARRAYS = 3
#: STREAM's rule requires that each array is this many times as large as all last-level caches
#: together, or larger.
_MIN_LLC_MULTIPLE = 4
#: Largest number of cores or of workloads that a finding names.
_MAX_NAMES = 6
# Reasons why other jobs may load the memory of a target (a node that runs the application).
_NOT_EXCLUSIVE = "access has no --exclusive, so other jobs may share a target"
_ALWAYS_SHARED = "OverSubscribe=FORCE, so other jobs may share a target in spite of --exclusive"


def c_compiler(*, needed: bool) -> HostFinding:
    """Return the finding about the C compiler, which must make OpenMP programs that run.

    STREAM needs it.
    """
    subject = "C compiler with OpenMP"
    name = os.environ.get("CC") or "cc"
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "openmp.c"), str(Path(folder, "openmp"))
        source.write_text(_OPENMP)
        compilation = ask([name, "-fopenmp", str(source), "-o", program], folder=Path(folder))
        trial = ask([program]) if compilation.ok else None
    if trial and trial.ok:
        return HostFinding(subject, "ok", version_of(name) or name, needed=needed)
    detail = f"its program fails: {trial.reason}" if trial else f"{name}: {compilation.first_line}"
    remedy = "apt install gcc libc6-dev; dnf install gcc glibc-devel"
    if trial and trial.reason == os.strerror(errno.EACCES):  # some hosts mount /tmp as noexec
        detail += f" (is {tempfile.gettempdir()} mounted noexec?)"
        remedy = "set TMPDIR to a folder in which programs may run"
    return HostFinding(subject, "missing", detail, remedy, needed)


def config_file(name: str, path: Path, settings: ReframeSettings) -> HostFinding:
    """Return the finding about the machine's ReFrame configuration, which ReFrame must accept."""
    subject = f"configs/{name}.py"
    if not path.is_file():
        remedy = _remedy_without_file(name, other_file=f"site/{name}.yaml")
        return fault_finding(subject, "no such file", remedy, needed=True)
    if settings.fault:
        line = f"line {settings.fault_line}: " if settings.fault_line else ""
        return fault_finding(subject, f"{line}{settings.fault}", "fix the file", needed=True)
    try:
        reframe = find_reframe()
    except NimcError as error:
        return fault_finding(subject, str(error), f"`{setup_command()}`", needed=True)
    command_line = [reframe, "-C", str(path), "--system", name, "--show-config=systems"]
    answer = ask(command_line, reframe_environment())
    if not answer.ok:
        return fault_finding(subject, answer.last_line, "fix the file", needed=True)
    names = ", ".join(
        f"{partition['name']} ({partition['scheduler']})" for partition in settings.partitions
    )
    return HostFinding(subject, "ok", f"ReFrame accepts it; partitions: {names}", needed=True)


def _remedy_without_file(name: str, other_file: str) -> str:
    """Return what to do if a machine has only one of its two files, `other_file`."""
    init = command("init", name)
    return f"restore the file, or remove {other_file} and write both anew: `{init}`"


def site_file(facts: Facts) -> HostFinding:
    """Return the finding about the machine's site file, which must be valid."""
    subject, machine = f"site/{facts.name}.yaml", facts.machine
    if machine is None:
        remedy = "see site/example_slurm.yaml"
        if not (facts.config_file.parents[1] / subject).exists():
            remedy = _remedy_without_file(facts.name, other_file=f"configs/{facts.name}.py")
        return fault_finding(subject, facts.site_fault, remedy, needed=True)
    detail = f"origins: {machine.origins.policy}; injector: {machine.injector}"
    return HostFinding(subject, "ok", detail, needed=True)


def cores(machine: Machine) -> HostFinding:
    """Return the finding about the cores of the host.

    It needs cores for the application and, if the origin (which runs the writers) is on the same
    host, for the origin.
    """
    try:
        application, origin = machine.split_cores()
    except InputError as error:
        remedy = "use a host, or a job, with at least two cores"
        return fault_finding("cores", str(error), remedy, needed=True)
    application_cores = first_names(application, _MAX_NAMES)
    detail = f"application on {application_cores}, origin on {first_names(origin, _MAX_NAMES)}"
    if not origin:
        detail = (
            f"origins are other nodes ({machine.origins.policy}); all cores are the application's"
        )
    return HostFinding("cores", "ok", detail, needed=True)


def memory(machine: Machine) -> HostFinding:
    """Return the finding about memory, which must have room for STREAM's arrays.

    STREAM's rule gives their least size.
    """
    try:
        needed_b = _STREAM_ARRAYS * _MIN_LLC_MULTIPLE * machine.llc_b()
        memory_b = machine.memory_b()
    except InputError as error:
        missing, _, remedy = str(error).partition("; allowed: ")
        # If origin and target share a host, all writes are larger than its caches, whose size must
        # be known for this.
        needed = machine.origins.policy == "same_host"
        return fault_finding("memory", missing, f"set {remedy}", needed=needed)
    share_b = machine.memory_share * memory_b
    detail = (
        f"STREAM needs {needed_b / 2**30:.2f} GiB (arrays of {_MIN_LLC_MULTIPLE} times the"
        f" last-level caches); allowed: {share_b / 2**30:.2f} of {memory_b / 2**30:.2f} GiB"
    )
    if needed_b <= share_b:
        return HostFinding("memory", "ok", detail)
    return fault_finding("memory", f"{detail}: its arrays are smaller, and samples note it")


def keys_of_writes(machine: Machine) -> list[HostFinding]:
    """Return a finding about the keys of the site file that describe writes from other nodes.

    It names the missing keys and the consequence of each. If origin and target share a host, the
    keys are not needed, and there is no finding.
    """
    if machine.origins.policy == "same_host":
        return []
    consequences = {
        "device": "no device counts what arrives, so writes are not verified",
        "interface": "agents use the address of the first node's host name",
        "nic": "the number of origins of short writes cannot follow from the link",
    }
    subject = f"keys of site/{machine.name}.yaml"
    unset = [
        f"no {key}: {consequence}"
        for key, consequence in consequences.items()
        if getattr(machine, key) is None
    ]
    if unset:
        remedy = f"see site/example_slurm.yaml for the keys of site/{machine.name}.yaml"
        return [fault_finding(subject, "; ".join(unset), remedy)]
    detail = (
        f"{machine.device} counts what arrives (--in-job reads it on nodes);"
        f" agents use {machine.interface}"
    )
    return [HostFinding(subject, "ok", detail)]


def targets(machine: Machine, partitions: Sequence[Mapping[str, Any]]) -> list[HostFinding]:
    """Return a finding if targets cannot be taken from the partitions of the configuration.

    Targets are the nodes that run the application. There are two possible faults. The site file may
    name a partition that the configuration lacks. A partition may take its nodes from the
    reservation of the origins, on which only writers run.
    """
    names = [partition["name"] for partition in partitions]
    reservation_name = machine.origins.reservation
    if partitions and machine.partition and machine.partition not in names:
        detail = f"partition {machine.partition} of site/{machine.name}.yaml is not in configs/"
        return [fault_finding("targets", detail, f"one of {', '.join(names)}", needed=True)]
    reserved_partitions = [
        partition["name"]
        for partition in partitions
        if reservation_name
        and reservation_name in option_values(partition.get("access", []), "reservation")
    ]
    if not reserved_partitions:
        return []
    detail = (
        f"{', '.join(reserved_partitions)}: access has --reservation={reservation_name},"
        " which is for the origins"
    )
    return [fault_finding("targets", detail, "remove it from access", needed=True)]


def environments(matrix: Matrix, config: Path) -> list[HostFinding]:
    """Return a finding about the workloads that can run in no environment.

    There is no finding if each workload can run. The matrix has the reasons.
    """
    unrunnable = list(matrix.why_nowhere)
    if not unrunnable:
        return []
    nothing_runs = len(unrunnable) == len({cell.workload for cell in matrix.cells})
    remedy = f"see what runs where, then correct {config.name} or get what is missing"
    state: Literal["limited", "missing"] = "limited"
    if nothing_runs or lacks_compiler(matrix):
        state = "missing"
    detail = f"none can run {first_names(unrunnable, _MAX_NAMES)}"
    return [HostFinding("environments", state, detail, remedy, needed=True)]


def lacks_compiler(matrix: Matrix) -> bool:
    """Return whether a workload can run in no environment because a compiler is missing."""
    return any("no compiler " in reason for reason in matrix.why_nowhere.values())


def sharing(
    partitions: Sequence[Mapping[str, Any]], environment: Mapping[str, str]
) -> list[HostFinding]:
    """Return a finding for each reason why jobs of some partitions do not get whole nodes.

    Other jobs on a node may load the memory of the application.
    """
    records = client.partition_records(environment)
    if not records:  # the function `slurm` reports that Slurm does not answer
        return []
    whole_nodes, always_shared = whole_node_partitions(records), always_shared_partitions(records)
    names_by_fault: dict[str, list[str]] = {"": [], _NOT_EXCLUSIVE: [], _ALWAYS_SHARED: []}
    for partition in partitions:
        if partition["scheduler"] in SCHEDULERS:
            access = partition.get("access", [])
            slurm_name = named_partition(access)
            # With `--exclusive=user` or `=mcs`, jobs of the same user or group may share a node.
            is_exclusive = bool(set(option_values(access, "exclusive")) - {"user", "mcs"})
            fault = "" if is_exclusive or slurm_name in whole_nodes else _NOT_EXCLUSIVE
            fault = _ALWAYS_SHARED if slurm_name in always_shared else fault
            names_by_fault[fault].append(partition["name"])
    return [
        fault_finding("whole nodes", f"{', '.join(names)}: {fault}", remedy)
        for fault, remedy in ((_NOT_EXCLUSIVE, "add it"), (_ALWAYS_SHARED, "take another"))
        if (names := names_by_fault[fault])
    ]


def origins(
    machine: Machine, partitions: Sequence[Mapping[str, Any]], environment: Mapping[str, str]
) -> list[HostFinding]:
    """Return the finding about the nodes for origins, which must be enough now.

    Origins come from a reservation or, as a component of the job, from a partition. There is no
    finding if they come from elsewhere, or if their partition has enough nodes besides one target.
    `partitions` are those of the configuration.
    """
    try:
        reserved = reservation.check(machine, machine.origins.nodes, needed_s=0)
    except NimcError as error:  # it says what to do
        return [fault_finding("origins", str(error), needed=True)]
    if reserved is not None:
        until = f"reserved until {reserved.end:%Y-%m-%d %H:%M}"
        if doubt := reservation.account_doubt(reserved):
            remedy = "access in configs/, and origins.access in site/: --account=NAME"
            return [HostFinding("origins", "limited", f"{until}; {doubt}", remedy, needed=True)]
        return [HostFinding("origins", "ok", until, needed=True)]
    origin_nodes = nodes_of_origins(machine.origins, environment)
    if origin_nodes is None:  # the function `slurm` reports if Slurm does not answer
        return []
    smallest_job = job_nodes(machine.origins.policy, 1, machine.origins.nodes)
    shortages = [
        origin_shortage(nodes_of_targets(target, environment), origin_nodes, smallest_job)
        for target in target_partitions(partitions, machine.partition)
    ]
    if not shortages or not all(shortages):
        return []
    remedy = f"origins in site/{machine.name}.yaml"
    return [fault_finding("origins", shortages[0], remedy, needed=True)]


def slurm(
    environment: Mapping[str, str], needed: bool, schedulers: Collection[str], policy: OriginPolicy
) -> list[HostFinding]:
    """Return the finding about Slurm: its commands must be found, its controller must answer.

    Accounting must answer too, unless ReFrame takes the states of jobs from the queue.
    `environment` is the environment, set by the machine's configuration, in which ReFrame runs
    Slurm's commands. `needed` is true if the machine uses Slurm. `schedulers` are ReFrame's
    schedulers of the targets' partitions. `policy` says where origins come from.
    """
    if fault := client.command_fault(environment):
        return [fault_finding("slurm", fault, needed=needed)]
    if not needed:
        return [HostFinding("slurm", "ok", "commands found; this machine does not use them")]
    version = version_of(client.SUBMIT_COMMAND) or client.SUBMIT_COMMAND
    if fault := client.controller_fault(environment):
        detail = f"the controller does not answer: {fault}"
        return [fault_finding("slurm", detail, "start slurmctld, or set SLURM_CONF", needed=True)]
    if SQUEUE_SCHEDULER in schedulers:
        detail = (
            f"{version}; controller answers; job states come from the queue, not from accounting"
        )
        if policy in ("hetjob", "reservation"):
            detail = f"scheduler {SQUEUE_SCHEDULER!r} does not follow heterogeneous jobs ({policy})"
            return [fault_finding("slurm", detail, "policy same_job in site/", needed=True)]
        return [HostFinding("slurm", "ok", detail, needed=True)]
    if fault := client.accounting_fault(environment):
        return [
            fault_finding("slurm", f"{version}; {fault}", client.ACCOUNTING_REMEDY, needed=True)
        ]
    return [HostFinding("slurm", "ok", f"{version}; controller and accounting answer", needed=True)]


def hardware_limits(node: Host) -> Iterator[HostFinding]:
    """Yield the properties of a host, and its limits, that limit what can be measured on it."""
    if host.processor_family(node.processor) is None:
        processor = host.processor_words(node.processor)
        detail = f"{processor} ({node.cpu_model}) is in no table: tools choose no counters for it"
        yield fault_finding("processor", detail, "add it to FAMILIES of records/machine/host.py")
    if node.memory_side_cache_b:
        size = f"{node.memory_side_cache_b / 2**30:g} GiB"
        detail = f"{size} of cache in front of the memory: writes and applications reach it first"
        remedy = "flat mode in the firmware makes it memory of its own"
        yield fault_finding("memory-side cache", detail, remedy)
    if node.cpu_quota is not None and node.cpu_quota < len(node.usable_cpus):
        detail = (
            f"a control group allows the time of {node.cpu_quota:g} of {len(node.usable_cpus)}"
            " CPUs: the kernel pauses an application that uses more"
        )
        remedy = "remove the limit (cpu.max, cpu.cfs_quota_us; --cpus of a container)"
        yield fault_finding("CPU quota", detail, remedy)


def shared_host_hardware_limits(machine: Machine, this_host: Host) -> Iterable[HostFinding]:
    """Return the findings about this host's hardware if targets are on this host.

    If targets are other nodes, a job on these nodes examines their hardware.
    """
    return hardware_limits(this_host) if machine.origins.policy == "same_host" else ()


def rdma(this_host: Host, machine: Machine) -> list[HostFinding]:
    """Return the findings about this host's RDMA devices. Compute nodes may have other devices."""
    site_devices = used_devices(this_host, machine) if machine.origins.policy == "same_host" else ()
    findings = [finding for finding in site_devices if finding.state != "ok"]
    if not this_host.rdma:
        emulated = command("minicluster", "up", "--fabric", "rxe")
        remedy = f"load the device's driver; without hardware: `{emulated}`"
        return [*findings, fault_finding("RDMA devices", "none on this host", remedy)]
    for device in this_host.rdma:
        subject = f"RDMA device {device.name}"
        ports = [port_words(port) for port in device.ports]
        reading = counters.read(device.name, "received")
        counter = reading.name if reading else f"none ({counters.why_no_count(device.name)})"
        firmware = f"firmware {device.firmware or 'unknown'}"
        detail = ", ".join([device.transport, firmware, *ports, f"byte counter: {counter}"])
        if device.ports and not any(port.is_active for port in device.ports):
            findings.append(
                fault_finding(subject, detail, "connect a port, or start the subnet manager")
            )
        else:
            findings.append(HostFinding(subject, "ok", detail))
    return findings


def unseen_nodes(machine: Machine | None) -> list[HostFinding]:
    """Return the finding that the nodes of a cluster were not examined.

    There is no finding if the machine is one host.
    """
    if machine is None or machine.origins.policy == "same_host":
        return []
    remedy = f"`{command('doctor', '--machine', machine.name, '--in-job')}`"
    return [fault_finding("nodes", "not examined: their devices, modules and limits", remedy)]


def used_devices(node: Host, machine: Machine) -> Iterator[HostFinding]:
    """Yield a finding for each device and rail of the site file.

    The host must have the device, with an active port.
    """
    rdma_devices = [
        f"{device.name} at {device.pci}" if device.pci else device.name for device in node.rdma
    ]
    interfaces = [interface.name for interface in node.interfaces]
    present = ", ".join([*rdma_devices, *interfaces]) or "none"
    remedy = f"bring its link up, or correct device and rails in site/{machine.name}.yaml"
    for name in machine.devices:
        device = devices.find(name, node.rdma)
        interface = next(
            (candidate for candidate in node.interfaces if candidate.name == name), None
        )
        detail = ""
        fault = ""
        if device:
            transport = f"{device.transport} at {device.pci}" if device.pci else device.transport
            detail = ", ".join([transport, *map(port_words, device.ports)])
            if reason := inactive_reason(name, node.rdma):
                fault = f"{detail}: {reason}"
        elif interface:
            detail = f"up{rate_words(interface.rate_b_s)}"
        else:
            fault = f"no RDMA device and no interface that is up; there are: {present}"
        yield required_finding(f"device {name}", fault, detail, remedy)


def inactive_reason(name: str, present: Sequence[Device]) -> str:
    """Return why writers cannot use the port that a device's name selects; empty if they can.

    The port is inactive or missing. The text lists the active ports of the device.
    """
    device = devices.find(name, present)
    port_number = devices.parse_name(name).port
    if device is None or not device.ports:
        return ""
    port = device.port(port_number)
    if port and (port.is_active or port.state == "unknown"):
        return ""
    active_ports = [port.number for port in device.ports if port.is_active]
    parsed_name = devices.parse_name(name)
    names = ", ".join(str(parsed_name._replace(port=number)) for number in active_ports)
    state = f"port {port_number} is {port.state}" if port else f"no port {port_number}"
    return f"{state}; active: {names or 'none'}"


def port_words(port: Port) -> str:
    """Return the number, state and rate of a device's port."""
    return f"port {port.number} {port.state}{rate_words(port.rate_b_s)}"


def rate_words(rate_b_s: float | None) -> str:
    """Return the rate of a port or an interface in words that continue a text."""
    return f" {rate_b_s * 8 / 1e9:g} Gbit/s" if rate_b_s else ", rate unknown"


def injectors(
    machine: Machine | None, node_findings: Sequence[HostFinding] = ()
) -> list[HostFinding]:
    """Return a finding for each injector: a program that makes writes.

    The injector of the site file is required if origin and target are this host. Directions of one
    program that have the same fault have one finding. A doubt about a program is left out if
    `node_findings`, those of a job, say whether its writes work.
    """
    between_hosts = machine is not None and machine.origins.policy != "same_host"
    device = machine.device if machine and between_hosts else None
    fabric = fabrics.by_name(device) if device else None
    tried = {finding.what for finding in node_findings}
    named_findings = []
    for name, injector in INJECTORS.items():
        is_used = machine is not None and name == machine.injector
        reason = injector.why_not_over(fabric) or injector.why_missing(device)
        doubt = injector.doubt() if between_hosts else None
        program = type(injector).name
        if reason:
            missing, _, remedy = reason.partition(": ")
            if is_used and between_hosts:
                missing += " on this host; compute nodes must have it"
            needed = is_used and not between_hosts
            finding = fault_finding(program, missing, remedy, needed=needed)
        elif doubt:
            if trial_subject(program) in tried:
                continue
            detail, _, remedy = doubt.partition(": ")
            finding = fault_finding(program, detail, remedy)
        else:
            detail = "ready, used by this machine" if is_used else "ready"
            finding = HostFinding(name, "ok", detail, needed=is_used)
        named_findings.append((finding, name))
    return [
        replace(finding, what=f"injector {', '.join(names)}")
        for finding, names in grouped(named_findings).items()
    ]


def trial_subject(name: str) -> str:
    """Return the subject of the finding about the writes that a job tried: `reads by ucx`."""
    injector = INJECTORS[name]
    action = "writes" if injector.direction == "write" else "reads"
    return f"{action} by {type(injector).name}"


def spack(machine: str) -> HostFinding:
    """Return the finding about Spack, which must be set up with compilers.

    Workloads that `nimc spack` builds need it.
    """
    spack_layout = layout(machine)
    settings = None
    with suppress(InputError):
        settings = load_settings(spack_layout)
    try:
        spack_root = Path(settings.spack) if settings else find_spack()
    except NimcError as error:
        return fault_finding("spack", str(error), "unset SPACK_ROOT, or correct it")
    if spack_root is None:
        return fault_finding(
            "spack", "no Spack found", f"`{command('spack', 'setup', '--machine', machine)}`"
        )
    program = spack_root / "bin" / "spack"
    if not program.is_file():
        remedy = f"`{command('spack', 'setup', '--machine', machine)}`"
        return fault_finding("spack", f"{program}: no such file", remedy)
    detail = f"{ask([str(program), '--version']).last_line} at {spack_root}"
    if settings is None:
        return HostFinding("spack", "ok", f"{detail}, not set up for {machine}")
    try:
        fault_and_remedy = compiler_fault_and_remedy(compilers(spack_layout, settings), machine)
    except InputError as error:
        return fault_finding("spack", str(error), "correct the file")
    if fault_and_remedy:
        fault, remedy = fault_and_remedy
        return fault_finding("spack", f"{detail}; {fault}", remedy)
    return HostFinding("spack", "ok", detail)


def tools() -> list[HostFinding]:
    """Return the findings about tools: programs that wrap the application and count events.

    A tool may have several forms, written `TOOL:FORM`. Forms that lack different things have
    separate findings.
    """
    findings = []
    forms = grouped((name.partition(":")[0], name) for name in TOOLS)
    for tool, names_of_tool in forms.items():
        reasons = grouped((TOOLS[name].why_missing() or "", name) for name in names_of_tool)
        for reason, names in reasons.items():
            subject = f"tool {tool if len(reasons) == 1 else ', '.join(names)}"
            if reason:
                missing, _, remedy = reason.partition(" (")
                findings.append(fault_finding(subject, missing, remedy.removesuffix(")")))
            else:
                findings.append(HostFinding(subject, "ok", "ready"))
    return findings


# The table.


#: Who needs a thing: this program itself, every campaign, or only some workloads, writers or levels
#: of factors. A plan checks needs of the last kind only for its own cases.
Scope = Literal["nimc", "campaigns", "some"]


@dataclass(frozen=True)
class Need:
    """A row of the table of needs."""

    #: Who needs the thing.
    scope: Scope
    #: Returns the findings about the need.
    find: Callable[[Facts], Iterable[HostFinding]]


def _python(_facts: Facts) -> list[HostFinding]:
    version = f"{sys.version.split()[0]} at {sys.executable}"
    return [HostFinding("python", "ok", version, needed=True)]


def _files(facts: Facts) -> list[HostFinding]:
    return [config_file(facts.name, facts.config_file, facts.settings), site_file(facts)]


def _checks(facts: Facts) -> Iterator[HostFinding]:
    """Yield a finding if checks cannot be read, or if no check runs a program of the site file."""
    if facts.checks_fault:
        yield fault_finding("checks", facts.checks_fault, "fix what it names", needed=True)


def _nodes(facts: Facts) -> Sequence[HostFinding]:
    return facts.node_findings or unseen_nodes(facts.machine)


def _with_machine(find: Callable[[Machine, Facts], Iterable[HostFinding]]) -> Callable[..., Any]:
    """Return a function for `Need.find` that passes the machine's site file to `find`.

    It returns no findings if the site file is not valid.
    """
    return lambda facts: find(facts.machine, facts) if facts.machine else ()


NEEDS = (
    Need("nimc", _python),
    Need("nimc", _files),
    Need("campaigns", _with_machine(lambda machine, _: [cores(machine), memory(machine)])),
    Need("campaigns", _with_machine(lambda machine, facts: targets(machine, facts.partitions))),
    Need(
        "campaigns",
        _with_machine(
            lambda machine, facts: slurm(
                facts.settings.environment,
                facts.uses_slurm,
                facts.schedulers,
                machine.origins.policy,
            )
        ),
    ),
    Need(
        "campaigns",
        _with_machine(
            lambda machine, facts: origins(machine, facts.partitions, facts.settings.environment)
        ),
    ),
    Need("campaigns", _with_machine(lambda machine, facts: rdma(facts.host, machine))),
    Need(
        "campaigns",
        _with_machine(lambda machine, facts: shared_host_hardware_limits(machine, facts.host)),
    ),
    Need("some", _with_machine(lambda machine, _: keys_of_writes(machine))),
    Need("nimc", _checks),
    Need("some", lambda facts: [c_compiler(needed=lacks_compiler(facts.matrix_of_targets))]),
    Need("some", lambda facts: environments(facts.matrix_of_targets, facts.config_file)),
    Need("some", lambda facts: sharing(facts.partitions, facts.settings.environment)),
    Need("some", lambda facts: injectors(facts.machine, facts.node_findings)),
    Need("some", lambda _: tools()),
    Need("some", lambda facts: [spack(facts.name)]),
    Need("some", _nodes),
)
