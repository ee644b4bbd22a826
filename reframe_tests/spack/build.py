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
    compiler_fault_and_remedy,
    compilers,
    has_host_slurm,
    machine_packages_file,
    package_files,
    packages_in,
    packages_in_text,
    packages_key,
)
from reframe_tests.spack.folders import SpackLayout, locked
from reframe_tests.spack.isolation import spack
from reframe_tests.spack.settings import (
    ENVIRONMENTS_FOLDER,
    SpackSettings,
    environment_text,
    load_pins,
    pinned_recipes,
)
from reframe_tests.spack.setup import find_compilers

#: MPI -> the variant that names its networks, and its fast networks. Other MPIs always have a fast
#: network, or come with the machine.
_MPI_NETWORKS = {
    "openmpi": ("fabrics", {"ucx", "ofi", "psm", "psm2"}),
    "mpich": ("netmod", {"ucx", "ofi"}),
}
#: Variants of UCX for InfiniBand. Without them it has shared memory and TCP only.
_UCX_VARIANTS = ("verbs", "rc")


def why_no_network(specs: Iterable[dict[str, Any]], machine_file: Path) -> str | None:
    """Return why the chosen MPI has no fast network, and what to set; None if it has one.

    `common.yaml` requires a fast network, but a machine's file may require something else, and then
    Spack silently leaves the network out. `specs` are the concrete specs of a lock. Specs that the
    machine provides (externals) are not judged.
    """
    to_build = {spec["name"]: spec for spec in specs if "external" not in spec}
    uses_ucx = False
    for name, (variant, fast_networks) in _MPI_NETWORKS.items():
        if name not in to_build:
            continue
        networks = _variant_values(to_build[name], variant)
        uses_ucx = uses_ucx or "ucx" in networks
        if not fast_networks & networks:
            return (
                f"Spack would build {name}@{to_build[name]['version']} without a fast network"
                f" ({variant}={','.join(sorted(networks)) or 'none'}): name the machine's own MPI"
                f" in {machine_file}, or require {variant}=ucx there (docs/workloads.md#spack)"
            )
    if not uses_ucx or "ucx" not in to_build:
        return None
    ucx = to_build["ucx"]
    missing = [name for name in _UCX_VARIANTS if not _variant_values(ucx, name)]
    if missing:
        return (
            f"Spack would build ucx@{ucx['version']} without {' and '.join(missing)}, so"
            f" that it has no InfiniBand: require ucx +{' +'.join(_UCX_VARIANTS)} in {machine_file}"
            " (docs/workloads.md#spack)"
        )
    return None


def _variant_values(spec: dict[str, Any], variant: str) -> set[str]:
    """Return the values of a variant; an empty set if it is off or absent."""
    value = spec.get("parameters", {}).get(variant) or []
    values = value if isinstance(value, list) else [str(value)]
    return set(values) - {"none"}


#: What Spack prints when it begins a package: `==> Installing NAME-VERSION-HASH [3/20]`. Since 1.2,
#: it prints `[ ] HASH NAME@VERSION` at the start of each step of the package.
_STEP = re.compile(r"==> Installing (\S+)-\w{32}( \[\d+/\d+\])|\[ \] \w{7} (\S+@\S+)")
#: Packages that provide MPI and its launcher.
_MPI_PACKAGES = {
    "cray-mpich",
    "cray-mvapich2",
    "fujitsu-mpi",
    "hpcx-mpi",
    "intel-oneapi-mpi",
    "mpich",
    "mpt",
    "mvapich",
    "mvapich-plus",
    "mvapich2",
    "openmpi",
    "spectrum-mpi",
}


@dataclass(frozen=True, kw_only=True)
class BuiltEnvironment:
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

    def prefixes_exist(self) -> bool:
        """Return whether all prefixes still exist."""
        return all(Path(spec["prefix"]).is_dir() for spec in self.specs)


_BUILT = TypeAdapter(BuiltEnvironment)


def build(
    layout: SpackLayout, settings: SpackSettings, name: str, jobs: int, say: Callable[[str], None]
) -> BuiltEnvironment:
    """Concretize and install an environment, unless it is built from the same inputs."""
    environment_text(name)  # raises for an unknown name, before a lock is made for it
    with locked(layout.lock(name)):
        spack_yaml = relocated_environment(layout, settings, name)
        digest = digest_of(layout, settings, name, spack_yaml)
        try:
            previous = read_built_environment(layout, name)
        except InputError as error:
            say(str(error))
            previous = None
        if previous and previous.digest == digest and previous.prefixes_exist():
            say(f"{name}: up to date")
            return previous
        folder = layout.environment(name)
        folder.mkdir(parents=True, exist_ok=True)
        replace_text(folder / "spack.yaml", spack_yaml)
        if compiler_fault_and_remedy(compilers(layout, settings), layout.machine):
            # A compiler may have been installed since the setup.
            find_compilers(layout, Path(settings.spack))
            digest = digest_of(layout, settings, name, spack_yaml)
        if warning := compiler_fault_and_remedy(compilers(layout, settings), layout.machine):
            say(f"{name}: {': '.join(warning)}")
        say(f"{name}: concretizing, which takes a minute or two (log: {layout.log(name)})")
        start_s = time.monotonic()
        _concretize(layout, settings, name)
        specs = list(_read_lock(folder / "spack.lock").get("concrete_specs", {}).values())
        if reason := why_no_network(specs, machine_packages_file(layout, settings)):
            raise MachineError(f"{name}: {reason}")
        concretize_end_s = time.monotonic()
        say(f"{name}: building")

        shown_steps: set[str] = set()

        def say_step(line: str) -> None:
            step = _STEP.match(line)
            if step and step[0] not in shown_steps:
                shown_steps.add(step[0])
                say(f"{name}: {''.join(filter(None, step.groups()))}")

        install_command = ("-e", str(folder), "install", "-j", str(jobs), "--fail-fast")
        spack(layout, Path(settings.spack), *install_command, log_name=name, watch=say_step)
        install_end_s = time.monotonic()
        installed = _installed_specs(layout, settings, name)
        root_hashes = _root_hashes(folder / "spack.lock")
        mpi = next((spec for spec in installed if spec["name"] in _MPI_PACKAGES), None)
        mpi_field = {"mpi": f"{mpi['name']}@{mpi['version']}/{mpi['hash'][:7]}"} if mpi else {}
        built = BuiltEnvironment(
            environment=name,
            view=str(folder / ".spack-env" / "view"),
            lock=str(folder / "spack.lock"),
            digest=digest,
            concretize_s=concretize_end_s - start_s,
            install_s=install_end_s - concretize_end_s,
            mpi=mpi["prefix"] if mpi else None,
            specs=[spec | mpi_field for spec in installed if spec["hash"] in root_hashes],
        )
        replace_text(layout.built_file(name), json.dumps(asdict(built), indent=1) + "\n")
        say(f"{name}: built in {install_end_s - start_s:.0f} s")
        return built


def _concretize(layout: SpackLayout, settings: SpackSettings, name: str) -> None:
    """Choose versions, or use the versions of a committed lock.

    Raises MachineError if the lock does not match the environment.
    """
    folder = layout.environment(name)
    committed_lock = _committed_lock(layout, name)
    spack_root = Path(settings.spack)
    concretize_command = ("-e", str(folder), "concretize")
    if not committed_lock.is_file():
        spack(layout, spack_root, *concretize_command, "--force", log_name=name)
        return
    committed_hashes = _root_hashes(committed_lock)
    replace_bytes(folder / "spack.lock", committed_lock.read_bytes())
    spack(layout, spack_root, *concretize_command, log_name=name)
    if _root_hashes(folder / "spack.lock") != committed_hashes:
        raise MachineError(
            f"{committed_lock}: does not match the {name} environment: remove it, build, and"
            f" commit {folder / 'spack.lock'} instead"
        )


def read_built_environment(layout: SpackLayout, name: str) -> BuiltEnvironment | None:
    """Return the last build, if there is one. Raises InputError if its record is invalid."""
    path = layout.built_file(name)
    try:
        return _BUILT.validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        raise InputError(f"{path}: not what a build writes: build again") from None


def built_environments(layout: SpackLayout) -> list[str]:
    """Return the names of the environments with a record of a build."""
    pattern = layout.built_file("*")
    files = pattern.parent.parent.glob(f"*/{pattern.name}")
    return sorted(file.parent.name for file in files)


def relocated_environment(layout: SpackLayout, settings: SpackSettings, name: str) -> str:
    """Return the text of an environment's file for use outside the checkout.

    Its paths are absolute. It has the folder of the recipes, and the rules of `network.yaml`. Its
    MPI is the machine's, if the machine's file has one MPI, or else Open MPI.
    """
    text = environment_text(name).replace("$env/..", str(ENVIRONMENTS_FOLDER))
    machine_file = machine_packages_file(layout, settings)
    text = text.replace(
        str(ENVIRONMENTS_FOLDER / "machines" / "$NIMC_MACHINE.yaml"), str(machine_file)
    )
    document = yaml.safe_load(text.replace("$NIMC_MACHINE", layout.machine))
    packages = document["spack"].setdefault(packages_key(document["spack"]), {})
    machine_packages = packages_in(machine_file, "machine file") if machine_file.is_file() else {}
    network = ENVIRONMENTS_FOLDER / "network.yaml"
    schedulers = "slurm" if has_host_slurm(layout, settings) else "none"
    machine_mpis = [
        name for name in _MPI_PACKAGES if machine_packages.get(name, {}).get("externals")
    ]
    mpi = machine_mpis[0] if len(machine_mpis) == 1 else "openmpi"
    network_text = network.read_text().replace("$NIMC_SCHEDULERS", schedulers)
    network_text = network_text.replace("$NIMC_MPI", mpi)
    for package, rule in packages_in_text(network_text, network, "network").items():
        if package not in machine_packages:
            packages[package] = {**packages.get(package, {}), **rule}
    recipes_folder = settings.packages or pinned_recipes(layout, load_pins())
    document["spack"]["repos"] = {"builtin": str(recipes_folder)}
    return yaml.safe_dump(document, sort_keys=False)


def digest_of(layout: SpackLayout, settings: SpackSettings, name: str, spack_yaml: str) -> str:
    """Return the SHA-256 of all that a build depends on; `spack_yaml` is the text of that file."""
    files = [
        ENVIRONMENTS_FOLDER / "common.yaml",
        ENVIRONMENTS_FOLDER / "pins.yaml",
        _committed_lock(layout, name),
        *package_files(layout, settings),
    ]
    digest = hashlib.sha256(f"{settings.spack}\n{settings.version}\n{spack_yaml}".encode())
    for path in files:
        digest.update(path.read_bytes() if path.is_file() else b"absent")
    return digest.hexdigest()


def _committed_lock(layout: SpackLayout, name: str) -> Path:
    """Return the path of the lock that a site may commit to keep this machine's versions."""
    return ENVIRONMENTS_FOLDER / "locks" / layout.machine / f"{name}.lock"


def _installed_specs(
    layout: SpackLayout, settings: SpackSettings, name: str
) -> list[dict[str, str]]:
    """Return every spec of the environment, installed by Spack or provided by the machine."""
    columns = ("hash", "name", "version", "prefix", "spec")
    spec_format = "{name}{@version}{variants}{compiler_flags}{ arch=architecture}{compilers}"
    line_format = "\t".join(["{hash}", "{name}", "{version}", "{prefix}", spec_format])
    find_command = ("-e", str(layout.environment(name)), "find", "--format", line_format)
    printed = spack(layout, Path(settings.spack), *find_command, log_name=name)
    specs = []
    for line in printed.splitlines():
        fields = [" ".join(field.split()) for field in line.split("\t")]
        if len(fields) == len(columns):
            specs.append(dict(zip(columns, fields, strict=True)))
    return specs


def _root_hashes(lock: Path) -> set[str]:
    return {entry["hash"] for entry in _read_lock(lock)["roots"]}


def _read_lock(path: Path) -> dict[str, Any]:
    """Return the content of a lock. Raises MachineError if it is invalid."""
    try:
        content = json.loads(path.read_text())
        if not all(isinstance(entry["hash"], str) for entry in content["roots"]):
            raise TypeError
    except (KeyError, OSError, TypeError, ValueError, RecursionError) as error:
        raise MachineError(f"{path}: not a lock of Spack's ({error}): remove it") from None
    return dict(content)
