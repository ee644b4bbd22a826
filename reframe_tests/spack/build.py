"""Builds an environment, unless it is already built from the same inputs."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

from records.errors import InputError, MachineError
from records.files import replace_bytes, replace_text
from reframe_tests.spack.externals import (
    compilers,
    has_external,
    own_file,
    packages_in,
    packages_of,
    section_name,
    without_compiler,
)
from reframe_tests.spack.folders import SpackLayout, locked
from reframe_tests.spack.isolation import spack
from reframe_tests.spack.settings import ENVIRONMENTS, SpackSettings, load_pins, recipes, text_of
from reframe_tests.spack.setup import find_compilers

#: MPI -> the variant that names its networks, and the values of which it needs at least one. Others
#: have their network by themselves, or come with the machine.
_NETWORK = {
    "openmpi": ("fabrics", {"ucx", "ofi", "psm", "psm2"}),
    "mpich": ("netmod", {"ucx", "ofi"}),
}
#: Without these, UCX has shared memory and TCP alone.
_UCX = ("verbs", "rc")


def without_network(specs: Iterable[dict[str, Any]], machine_file: Path) -> str | None:
    """Return why the chosen MPI has no fast network, and what to set; None if it has one.

    `common.yaml` requires it, but a machine's file may require something else, and a fabric that is
    not requested is left out silently. `specs`: the concrete specs of a lock. Those of the machine
    (externals) are not judged.
    """
    built = {spec["name"]: spec for spec in specs if "external" not in spec}
    over_ucx = False
    for name, (variant, good) in _NETWORK.items():
        chosen = _values(built[name], variant) if name in built else good
        over_ucx |= name in built and "ucx" in chosen
        if not good & chosen:
            return (
                f"Spack would build {name}@{built[name]['version']} without a fast network"
                f" ({variant}={','.join(sorted(chosen)) or 'none'}): name the machine's own MPI in"
                f" {machine_file}, or require {variant}=ucx there (docs/workloads.md#spack)"
            )
    missing = [name for name in _UCX if "ucx" in built and not _values(built["ucx"], name)]
    if missing and over_ucx:
        return (
            f"Spack would build ucx@{built['ucx']['version']} without {' and '.join(missing)}, so"
            f" that it has no InfiniBand: require ucx +{' +'.join(_UCX)} in {machine_file}"
            " (docs/workloads.md#spack)"
        )
    return None


def _values(spec: dict[str, Any], variant: str) -> set[str]:
    """The values of a variant; none of one that is off or absent."""
    chosen = spec.get("parameters", {}).get(variant) or []
    return {*(chosen if isinstance(chosen, list) else [str(chosen)])} - {"none"}


#: Lines of Spack as it begins a package, and since 1.2 of each step of one.
_BEGUN = re.compile(r"==> Installing (\S+)-\w{32}( \[\d+/\d+\])|\[ \] \w{7} (\S+@\S+)")
#: Packages that provide MPI and its launcher.
_MPI = {"openmpi", "mpich", "mvapich", "intel-oneapi-mpi", "cray-mpich"}


@dataclass(frozen=True, kw_only=True)
class Built:
    """A built environment, as in `built.json`."""

    environment: str
    #: Folder whose `bin` goes to PATH, and the lock with every concrete spec.
    view: str
    lock: str
    #: Prefix of the MPI to start programs with; None if none is needed.
    mpi: str | None
    #: Digest of the inputs: environment, recipes, pin, machine, compilers, Spack.
    digest: str
    #: Duration of the last concretization and installation, seconds.
    concretize_s: float
    install_s: float
    #: Root specs: `name`, `version`, `hash`, `prefix`, `spec` (with every variant, and compilers),
    #: and `mpi` if the environment has one (`openmpi@5.0.8/abcdefg`).
    specs: list[dict[str, str]]

    def is_there(self) -> bool:
        """Return whether all prefixes still exist."""
        return all(Path(spec["prefix"]).is_dir() for spec in self.specs)


_BUILT = TypeAdapter(Built)


def build(
    layout: SpackLayout, settings: SpackSettings, name: str, jobs: int, say: Callable[[str], None]
) -> Built:
    """Concretize and install an environment, unless it is built from the same inputs."""
    text_of(name)  # an unknown one has no lock either
    with locked(layout.lock(name)):
        text = placed(layout, settings, name)
        digest = digest_of(layout, settings, name, text)
        try:
            before = read(layout, name)
        except InputError as error:
            say(str(error))
            before = None
        if before and before.digest == digest and before.is_there():
            say(f"{name}: up to date")
            return before
        folder = layout.environment(name)
        folder.mkdir(parents=True, exist_ok=True)
        replace_text(folder / "spack.yaml", text)
        if without_compiler(compilers(layout, settings), layout.machine):
            find_compilers(layout, Path(settings.spack))  # it may have been installed since
            digest = digest_of(layout, settings, name, text)
        if missing := without_compiler(compilers(layout, settings), layout.machine):
            say(f"{name}: {': '.join(missing)}")
        say(f"{name}: concretizing, which takes a minute or two (log: {layout.log(name)})")
        started = time.monotonic()
        _concretize(layout, settings, name)
        specs = list(_lock(folder / "spack.lock").get("concrete_specs", {}).values())
        if reason := without_network(specs, own_file(layout, settings)):
            raise MachineError(f"{name}: {reason}")
        concretized = time.monotonic()
        say(f"{name}: building")

        begun: set[str] = set()

        def watch(line: str) -> None:
            if (match := _BEGUN.match(line)) and match[0] not in begun:
                begun.add(match[0])
                say(f"{name}: {''.join(filter(None, match.groups()))}")

        install = ("-e", str(folder), "install", "-j", str(jobs), "--fail-fast")
        spack(layout, Path(settings.spack), *install, log=name, watch=watch)
        installed = time.monotonic()
        rows = _installed(layout, settings, name)
        roots = _root_hashes(folder / "spack.lock")
        mpi = next((row for row in rows if row["name"] in _MPI), None)
        over = {"mpi": f"{mpi['name']}@{mpi['version']}/{mpi['hash'][:7]}"} if mpi else {}
        built = Built(
            environment=name,
            view=str(folder / ".spack-env" / "view"),
            lock=str(folder / "spack.lock"),
            digest=digest,
            concretize_s=concretized - started,
            install_s=installed - concretized,
            mpi=mpi["prefix"] if mpi else None,
            specs=[row | over for row in rows if row["hash"] in roots],
        )
        replace_text(layout.stamp(name), json.dumps(asdict(built), indent=1) + "\n")
        say(f"{name}: built in {installed - started:.0f} s")
        return built


def _concretize(layout: SpackLayout, settings: SpackSettings, name: str) -> None:
    """Choose versions, or take those of a committed lock.

    Raises MachineError if that does not match the environment.
    """
    folder, committed = layout.environment(name), _committed_lock(layout, name)
    concretize = (layout, Path(settings.spack), "-e", str(folder), "concretize")
    if not committed.is_file():
        spack(*concretize, "--force", log=name)
        return
    hashes = _root_hashes(committed)
    replace_bytes(folder / "spack.lock", committed.read_bytes())
    spack(*concretize, log=name)
    if _root_hashes(folder / "spack.lock") != hashes:
        raise MachineError(
            f"{committed}: does not match the {name} environment: remove it, build, and"
            f" commit {folder / 'spack.lock'} instead"
        )


def read(layout: SpackLayout, name: str) -> Built | None:
    """The last build, if there is one. Raises InputError if its record cannot be read."""
    path = layout.stamp(name)
    try:
        return _BUILT.validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        raise InputError(f"{path}: not what a build writes: build again") from None


def stored(layout: SpackLayout) -> list[str]:
    """Names of the environments with a record of a build."""
    return sorted(path.parent.name for path in layout.stamp("*").parent.parent.glob("*/built.json"))


def placed(layout: SpackLayout, settings: SpackSettings, name: str) -> str:
    """The environment's file for a folder outside the checkout: absolute paths, recipes set."""
    text = text_of(name).replace("$env/..", str(ENVIRONMENTS))
    own = own_file(layout, settings)
    text = text.replace(str(ENVIRONMENTS / "machines" / "$NIMC_MACHINE.yaml"), str(own))
    document = yaml.safe_load(text.replace("$NIMC_MACHINE", layout.machine))
    packages = document["spack"].setdefault(section_name(document["spack"], "packages"), {})
    named = packages_in(own, "machine file") if own.is_file() else {}
    network = ENVIRONMENTS / "network.yaml"
    schedulers = "slurm" if has_external(layout, settings, "slurm") else "none"
    text = network.read_text().replace("$NIMC_SCHEDULERS", schedulers)
    for package, rule in packages_of(text, network, "network").items():
        if package not in named:
            packages[package] = {**packages.get(package, {}), **rule}
    builtin = settings.packages or recipes(layout, load_pins())
    document["spack"]["repos"] = {"builtin": str(builtin)}
    return yaml.safe_dump(document, sort_keys=False)


def digest_of(layout: SpackLayout, settings: SpackSettings, name: str, text: str) -> str:
    """SHA-256 of everything that the build depends on."""
    files = [
        ENVIRONMENTS / "common.yaml",
        ENVIRONMENTS / "pins.yaml",
        layout.packages,
        _committed_lock(layout, name),
        own_file(layout, settings),
    ]
    total = hashlib.sha256(f"{settings.spack}\n{settings.version}\n{text}".encode())
    for path in files:
        total.update(path.read_bytes() if path.is_file() else b"absent")
    return total.hexdigest()


def _committed_lock(layout: SpackLayout, name: str) -> Path:
    """Path of the lock that a site may commit to fix this machine's versions."""
    return ENVIRONMENTS / "locks" / layout.machine / f"{name}.lock"


def _installed(layout: SpackLayout, settings: SpackSettings, name: str) -> list[dict[str, str]]:
    """Every spec of the environment, installed by Spack or taken from the machine."""
    names = ("hash", "name", "version", "prefix", "spec")
    spec = "{name}{@version}{variants}{compiler_flags}{ arch=architecture}{compilers}"
    form = "\t".join(["{hash}", "{name}", "{version}", "{prefix}", spec])
    find = ("-e", str(layout.environment(name)), "find", "--format", form)
    printed = spack(layout, Path(settings.spack), *find, log=name)
    rows = [line.split("\t") for line in printed.splitlines() if line.count("\t") == 4]
    return [dict(zip(names, [" ".join(part.split()) for part in row], strict=True)) for row in rows]


def _root_hashes(lock: Path) -> set[str]:
    return {entry["hash"] for entry in _lock(lock)["roots"]}


def _lock(path: Path) -> dict[str, Any]:
    """A lock. Raises MachineError if it cannot be read."""
    try:
        content = json.loads(path.read_text())
        if not all(isinstance(entry["hash"], str) for entry in content["roots"]):
            raise TypeError
    except (KeyError, OSError, TypeError, ValueError, RecursionError) as error:
        raise MachineError(f"{path}: not a lock of Spack's ({error}): remove it") from None
    return dict(content)
