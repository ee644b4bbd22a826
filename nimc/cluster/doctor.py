"""What works on this host for a machine, and how to get what is missing: `nimc doctor`."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from nimc.base import checkout
from nimc.base.errors import InputError, NimcError
from nimc.base.programs import ask, which
from nimc.campaign.checks import checks_in, require_known_programs
from nimc.campaign.matrix import Matrix, matrix
from nimc.campaign.settings import settings_of
from nimc.cluster import reservation
from nimc.machine import host
from nimc.machine import site as site_files
from nimc.machine.host import Host
from nimc.machine.program import version_of
from nimc.machine.site import Machine
from nimc.node.injectors import INJECTORS
from nimc.run.session import find_reframe
from nimc.spack.setup import find_spack
from reframe_tests.tools import TOOLS
from testbed import needs

_OPENMP = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n"
#: STREAM's rule: every array at least this many times the last-level caches; it has three.
_STREAM_MULTIPLE = 4
_STREAM_ARRAYS = 3


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    what: str
    #: `limited`: works with the restriction in `detail`, or missing and needed by some campaigns
    #: only.
    state: Literal["ok", "limited", "missing"]
    detail: str
    #: How to get what is missing; empty if there is nothing to do.
    remedy: str = ""
    #: Whether campaigns on this machine require it.
    needed: bool = False


def lacking(what: str, detail: str, remedy: str = "", *, needed: bool = False) -> Finding:
    """What is missing if campaigns require it, and else restricts them."""
    return Finding(what, "missing" if needed else "limited", detail, remedy, needed)


def c_compiler() -> Finding:
    """A C compiler whose OpenMP programs run; STREAM needs one."""
    name = os.environ.get("CC", "cc")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "openmp.c")
        source.write_text(_OPENMP)
        program = str(Path(folder, "openmp"))
        built = ask([name, "-fopenmp", str(source), "-o", program])
        works = built.ok and ask([program]).ok
    if works:
        return Finding("C compiler with OpenMP", "ok", version_of(name) or name)
    remedy = "apt install gcc libc6-dev; dnf install gcc glibc-devel"
    return Finding("C compiler with OpenMP", "missing", built.text or f"{name} fails", remedy)


def reframe_config(name: str, root: Path) -> tuple[Finding, list[dict[str, Any]]]:
    """Whether ReFrame accepts the machine's configuration; and its partitions."""
    what = f"configs/{name}.py"
    path = root / "configs" / f"{name}.py"
    if not path.is_file():
        remedy = "nimc init NAME writes both files, see docs/add-a-machine.md"
        return lacking(what, "no such file", remedy, needed=True), []
    try:
        reframe = find_reframe()
    except NimcError as error:
        return lacking(what, str(error), "make campaign", needed=True), []
    shown = ask([reframe, "-C", str(path), "--system", name, "--show-config=systems"])
    systems = systems_in(shown.text) if shown.ok else []
    if not systems:
        return lacking(what, shown.last, "fix the file", needed=True), []
    partitions: list[dict[str, Any]] = systems[0]["partitions"]
    names = ", ".join(f"{part['name']} ({part['scheduler']})" for part in partitions)
    return Finding(what, "ok", f"ReFrame accepts it; partitions: {names}", needed=True), partitions


def systems_in(text: str) -> list[dict[str, Any]]:
    """The list that ReFrame prints, possibly after warnings; empty if there is none."""
    start = text.find("[\n")
    try:
        found = json.loads(text[start:]) if start >= 0 else []
    except (ValueError, RecursionError):
        return []
    return [system for system in found if isinstance(system, dict) and system.get("partitions")]


def site_file(name: str, root: Path) -> tuple[Finding, Machine | None]:
    """Whether the machine's site file is valid; and its content."""
    what = f"site/{name}.yaml"
    try:
        site = site_files.load(name, root)
    except InputError as error:
        return lacking(what, str(error), "see docs/add-a-machine.md", needed=True), None
    detail = f"origins: {site.origins.policy}; injector: {site.injector}"
    return Finding(what, "ok", detail, needed=True), site


def cores(site: Machine) -> Finding:
    """Whether there are enough cores where application and origin share a host."""
    try:
        application, origin = site.split_cpus()
    except InputError as error:
        remedy = "use a host, or a job, with at least two cores"
        return lacking("cores", str(error), remedy, needed=True)
    detail = f"application on {_some(application)}, origin on {_some(origin)}"
    if not origin:
        detail = f"origins are other nodes ({site.origins.policy}); all cores are the application's"
    return Finding("cores", "ok", detail, needed=True)


def memory(site: Machine) -> Finding:
    """Whether STREAM's arrays can be as large as its rule requires."""
    facts = site.node_facts()
    wanted_b = _STREAM_ARRAYS * _STREAM_MULTIPLE * facts.llc_b
    share_b = site.memory_share * facts.memory_b
    detail = (
        f"STREAM needs {wanted_b / 2**30:.2f} GiB (arrays of {_STREAM_MULTIPLE} times the"
        f" last-level caches); allowed: {share_b / 2**30:.2f} of {facts.memory_b / 2**30:.2f} GiB"
    )
    if wanted_b <= share_b:
        return Finding("memory", "ok", detail)
    return lacking("memory", f"{detail}: its arrays are smaller, and samples note it")


def writes(site: Machine) -> list[Finding]:
    """What the site file does not say about writes from other nodes, and the consequence."""
    if site.origins.policy == "same_host":
        return []
    costs = {
        "device": (site.device, "no device counts what arrives, so writes are not verified"),
        "interface": (site.interface, "agents use the address of the first node's host name"),
        "nic": (site.nic, "the number of origins of short writes cannot follow from the link"),
    }
    unset = [f"no {key}: {cost}" for key, (given, cost) in costs.items() if given is None]
    if not unset:
        return [Finding("writes", "ok", f"counted by {site.device}, agents over {site.interface}")]
    remedy = f"see docs/add-a-machine.md for the keys of site/{site.name}.yaml"
    return [lacking("writes", "; ".join(unset), remedy)]


def targets(site: Machine, partitions: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """A partition that is missing, or whose targets would come from the origins' reservation."""
    names = [part["name"] for part in partitions]
    if partitions and site.partition and site.partition not in names:
        detail = f"partition {site.partition} of site/{site.name}.yaml is not in configs/"
        return [lacking("targets", detail, f"one of {', '.join(names)}", needed=True)]
    reserved = f"--reservation={site.origins.reservation}"
    wrong = [part["name"] for part in partitions if reserved in part.get("access", [])]
    if not (site.origins.reservation and wrong):
        return []
    detail = f"{', '.join(wrong)}: access has {reserved}, which is for the origins"
    return [lacking("targets", detail, "remove it from access", needed=True)]


def environments(cells: Matrix, config: Path) -> list[Finding]:
    """Workloads that can run nowhere; the matrix has the reasons."""
    workloads = {cell.workload for cell in cells.cells}
    nowhere = cells.nowhere
    if not nowhere:
        return []
    state: Literal["limited", "missing"] = (
        "missing" if len(nowhere) == len(workloads) else "limited"
    )
    remedy = f"see what runs where, then correct {config.name} or get what is missing"
    return [Finding("environments", state, f"none can run {_some(list(nowhere))}", remedy, True)]


def sharing(partitions: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Slurm partitions that do not request whole nodes: other jobs may load a target's memory."""
    slurm = [part for part in partitions if part["scheduler"] in ("slurm", "squeue")]
    wrong = [part["name"] for part in slurm if "--exclusive" not in part.get("access", [])]
    if not wrong:
        return []
    detail = f"{', '.join(wrong)}: access has no --exclusive, so other jobs may share a target"
    remedy = "add it, unless the partition gives whole nodes only (OverSubscribe=EXCLUSIVE)"
    return [lacking("whole nodes", detail, remedy)]


def origins(site: Machine) -> list[Finding]:
    """Whether the reservation of the machine's origins can be used now."""
    if site.origins.policy != "reservation":
        return []
    try:
        reservation.check(site, site.origins.nodes, needed_s=0)
    except NimcError as error:
        remedy = f"nimc origins create --machine {site.name}"
        return [lacking("origins", str(error), remedy, needed=True)]
    until = reservation.find(reservation.name_of(site))
    end = until.end if until else datetime.now()
    return [Finding("origins", "ok", f"reserved until {end:%Y-%m-%d %H:%M}", needed=True)]


def slurm(config: Path, needed: bool) -> list[Finding]:
    """Slurm's commands, and whether its controller and accounting answer.

    Runs them as ReFrame does, in the environment that the machine's configuration sets.
    """
    absent = [name for name in ("sbatch", "srun", "scontrol", "sacct") if not shutil.which(name)]
    if absent:
        remedy = "apt install slurm-client; dnf install slurm"
        return [lacking("slurm", f"no {', '.join(absent)} on PATH", remedy, needed=needed)]
    if not needed:
        return [Finding("slurm", "ok", "commands found; this machine does not use them")]
    version = version_of("sbatch") or "sbatch"
    environment = settings_of(config).environment
    answer = ask(["scontrol", "ping"], environment)
    if not answer.ok or " is UP" not in answer.text:
        detail = f"{version}; the controller does not answer: {answer.last}"
        return [lacking("slurm", detail, "start slurmctld, or set SLURM_CONF", needed=True)]
    accounts = ask(["sacct", "-n", "-X"], environment)
    if not accounts.ok:
        remedy = "configure slurmdbd: ReFrame's scheduler 'slurm' reads job states from sacct"
        return [lacking("slurm", f"{version}; {accounts.last}", remedy, needed=True)]
    return [Finding("slurm", "ok", f"{version}; controller and accounting answer", needed=True)]


def rdma(here: Host) -> list[Finding]:
    """RDMA devices of this host; those of compute nodes may differ."""
    if not here.rdma:
        remedy = "load the device's driver; without hardware: nimc minicluster up --fabric rxe"
        return [lacking("RDMA devices", "none on this host", remedy)]
    found = []
    for device in here.rdma:
        ports = [port_words(asdict(port)) for port in device.ports]
        active = any(port.state == "ACTIVE" for port in device.ports) or not device.ports
        firmware = f"firmware {device.firmware or 'unknown'}"
        detail = ", ".join([device.transport, firmware, *ports])
        what = f"RDMA device {device.name}"
        remedy = "connect a port, or start the subnet manager"
        found.append(Finding(what, "ok", detail) if active else lacking(what, detail, remedy))
    return found


def port_words(port: Mapping[str, Any]) -> str:
    """Number, state and rate of a device's port."""
    return f"port {port['number']} {port['state']}{gbit_s(port)}"


def gbit_s(record: Mapping[str, Any]) -> str:
    """Rate of a port or an interface, with what separates it from the words before."""
    rate_b_s = record["rate_b_s"]
    return f" {rate_b_s * 8 / 1e9:g} Gbit/s" if rate_b_s else ", rate unknown"


def injectors(site: Machine | None) -> list[Finding]:
    """Every injector; the one of the site file is required if writers run on this host."""
    found = []
    apart = site is not None and site.origins.policy != "same_host"
    for name, injector in INJECTORS.items():
        needed = site is not None and name == site.injector
        reason = injector.missing()
        if reason is None:
            detail = "ready, used by this machine" if needed else "ready"
            found.append(Finding(f"injector {name}", "ok", detail, needed=needed))
        else:
            lack, _, remedy = reason.partition(": ")
            if needed and apart:
                lack += " on this host; compute nodes must have it"
            found.append(lacking(f"injector {name}", lack, remedy, needed=needed and not apart))
    return found


def spack() -> Finding:
    """Used by the workloads that `nimc spack` builds."""
    try:
        root = find_spack()
    except NimcError as error:
        return lacking("spack", str(error), "unset SPACK_ROOT, or correct it")
    if root is None:
        return lacking("spack", "no Spack found", "nimc spack setup clones one")
    version = ask([str(root / "bin" / "spack"), "--version"]).last
    return Finding("spack", "ok", f"{version} at {root}")


def minicluster() -> list[Finding]:
    """What a Slurm cluster on this host needs."""
    found = []
    for fabric in ("veth", "rxe"):
        what, absent = f"minicluster over {fabric}", [n.thing for n in needs.missing(fabric)]
        remedy = f"site/minicluster/install.sh --fabric {fabric}"
        met = Finding(what, "ok", "all requirements are met")
        found.append(lacking(what, f"missing: {_some(absent)}", remedy) if absent else met)
    return found


def program(what: str, name: str, debian: str, rhel: str) -> Finding:
    """A program that only some workloads need."""
    if path := which(name):
        return Finding(what, "ok", path)
    remedy = f"apt install {debian}; dnf install {rhel}"
    return lacking(what, f"no {name} on PATH", remedy)


#: PAPI's event that every processor with counters has.
_CYCLES = "PAPI_TOT_CYC"


def papi() -> Finding:
    """PAPI's counters, found by counting."""
    what = "counters (PAPI)"
    if shutil.which("papi_avail") is None or shutil.which("papi_command_line") is None:
        remedy = "apt install papi-tools; dnf install papi"
        return lacking(what, "no papi_avail and papi_command_line on PATH", remedy)
    listed = re.search(r"Of \d+ possible events, (\d+) are available", ask(["papi_avail"]).text)
    events = int(listed[1]) if listed else 0
    # The list names what the processor's model has; a virtual machine may count none of it.
    answer = ask(["papi_command_line", _CYCLES])
    if reason := refusal(answer.text):
        detail = f"{events} preset events listed, and {_CYCLES} counts nothing: {reason}"
        return lacking(what, detail, "measure on a machine with counters")
    return Finding(what, "ok", f"{events} preset events; {_CYCLES} counts")


def refusal(text: str) -> str | None:
    """Why `papi_command_line PAPI_TOT_CYC` counted nothing, from its output; None if it counted.

    Its exit status is 0 in any case.
    """
    if found := re.search(rf"^{_CYCLES} : *\t*(\d+)", text, re.MULTILINE):
        return None if int(found[1]) else "its count is 0"
    because = re.search(r"because: (.+)", text)
    return because[1].strip() if because else "no answer"


def tools() -> list[Finding]:
    """Every tool that can wrap the ranks; levels that lack the same in one line."""
    reasons: dict[str | None, list[str]] = {}
    for name, tool in TOOLS.items():
        reasons.setdefault(tool.missing(), []).append(name)
    found = []
    for reason, names in reasons.items():
        if reason is None:
            found.append(Finding(f"tool {', '.join(names)}", "ok", "ready"))
            continue
        lack, _, remedy = reason.partition(" (")
        found.append(lacking(f"tool {', '.join(names)}", lack, remedy.removesuffix(")")))
    return found


@dataclass(frozen=True)
class Diagnosis:
    """All findings, in the order in which to fix them."""

    machine: str
    #: What keeps campaigns from running, in one line; empty if nothing does.
    why: str
    findings: list[Finding]
    #: Facts of the host (`nimc.machine.host`).
    host: dict[str, Any]
    #: What runs where, in every partition; empty if the settings or the checks cannot be read.
    matrix: Matrix

    @property
    def ready(self) -> bool:
        """Whether campaigns can run."""
        return not self.why

    def as_dict(self) -> dict[str, Any]:
        """The diagnosis as in JSON."""
        verdict = "ready" if self.ready else "not ready"
        return asdict(self) | {"verdict": verdict, "matrix": asdict(self.matrix)["cells"]}

    def extended(self, more: list[Finding]) -> Diagnosis:
        """The diagnosis with further findings."""
        findings = [*self.findings, *more]
        return replace(self, findings=findings, why=obstacle(findings))


def examine(name: str, root: Path = checkout.ROOT) -> Diagnosis:
    """Check this host for the machine `name`.

    Raises InputError if there is no file of that name; an invalid file is a finding.
    """
    if name not in known_machines(root):
        known = ", ".join(known_machines(root)) or "none"
        raise InputError(
            f"machine {name!r}: neither site/{name}.yaml nor configs/{name}.py exists;"
            f" known machines: {known}"
        )
    here = host.detect()
    config, partitions = reframe_config(name, root)
    site_finding, site = site_file(name, root)
    version = f"{sys.version.split()[0]} at {sys.executable}"
    findings = [Finding("python", "ok", version, needed=True), c_compiler(), config, site_finding]
    if site is not None:
        findings += [cores(site), memory(site), *writes(site)]
        findings += [*origins(site), *targets(site, partitions)]
    config_file = root / "configs" / f"{name}.py"
    cells, faults = _matrix(name, config_file, root / "reframe_tests", site)
    findings += faults
    of_targets = [c for c in cells.cells if not site or site.partition in (None, c.partition)]
    findings += environments(Matrix(of_targets), config_file)
    findings += sharing(partitions)
    with_slurm = any(part["scheduler"] in ("slurm", "squeue") for part in partitions)
    findings += slurm(config_file, needed=with_slurm)
    findings += [program("mpiexec", "mpiexec", "mpich", "mpich")]
    findings += [program("mpicc", "mpicc", "libmpich-dev", "mpich-devel")]
    findings += [program("Fortran compiler", "gfortran", "gfortran", "gcc-gfortran")]
    findings += rdma(here)
    findings += injectors(site)
    findings += [papi(), *tools()]
    findings += [spack(), *minicluster()]
    return Diagnosis(name, obstacle(findings), findings, here.as_dict(), cells)


def _matrix(
    name: str, config: Path, folder: Path, site: Machine | None
) -> tuple[Matrix, list[Finding]]:
    """What runs where in all partitions; a fault of the settings or the checks is a finding."""
    settings = settings_of(config)
    if not settings.partitions or not folder.is_dir():
        return Matrix(), []
    faults = []
    if settings.fault:
        where = f"line {settings.fault_line}: " if settings.fault_line else ""
        text = f"{where}{settings.fault}"
        faults.append(lacking(f"configs/{name}.py", text, "fix the file", needed=True))
    try:
        checks = checks_in(folder)
        if site:
            require_known_programs(site, checks)
        programs = site.programs if site else {}
        return matrix(checks, settings, name, None, programs=programs), faults
    except NimcError as error:
        return Matrix(), [*faults, lacking("checks", str(error), "fix what it names", needed=True)]


def known_machines(root: Path) -> list[str]:
    """Every machine with a file in `site/` or `configs/`; one of the two is enough."""
    configs = {path.stem for path in (root / "configs").glob("[a-z]*.py")}
    return sorted(configs | set(site_files.known_machines(root)))


def obstacle(findings: list[Finding]) -> str:
    """What keeps a campaign from running: requirements that are missing."""
    return ", ".join(each.what for each in findings if each.needed and each.state == "missing")


def _some(things: Sequence[object], most: int = 6) -> str:
    shown = ", ".join(str(thing) for thing in things[:most])
    return shown + (f" and {len(things) - most} more" if len(things) > most else "")
