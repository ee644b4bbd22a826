"""Finds an installed Spack, or clones the pinned one, configures it, and runs it isolated."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from records.checkout import ROOT
from records.commands import command, setup_command
from records.errors import InputError, MachineError, first_fault
from records.files import private_lock, replace_text, user_name
from records.last_words import errs
from records.marked_yaml import Record
from records.programs import START_FOLDER, ask, last_line

ENVIRONMENTS = ROOT / "spack_envs"


class Source(Record):
    """A commit of a repository; the tag is for shallow clones."""

    git: Annotated[str, Field(pattern=r"^https://\S+\.git$")]
    tag: str
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class Pins(Record):
    """`spack_envs/pins.yaml`: Spack and its recipes, which are updated together."""

    spack: Source
    packages: Source


def load_pins(folder: Path = ENVIRONMENTS) -> Pins:
    """The pins; raises InputError if the file is invalid."""
    path = folder / "pins.yaml"
    try:
        return Pins.model_validate(yaml.safe_load(path.read_text()))
    except ValidationError as error:
        raise InputError(f"{path.name}: {first_fault(error)}") from None


#: What stands in the file of an environment for its size, and joins that to its name.
SIZE, _AT = "$NIMC_SIZE", "@"


def known_environments() -> list[str]:
    """Every environment, by its folder's name; with `@SIZE` those that are built for a size."""
    texts = {path.parent.name: path.read_text() for path in ENVIRONMENTS.glob("*/spack.yaml")}
    return sorted(f"{name}{_AT}SIZE" if SIZE in text else name for name, text in texts.items())


def text_of(name: str) -> str:
    """The file of an environment such as `proxyapps` or `stream@80000000`, its size filled in.

    Raises InputError for other names.
    """
    folder, at, size = name.partition(_AT)
    allowed = known_environments()
    if (f"{folder}{at}SIZE" if at else folder) not in allowed:
        raise InputError(f"environment {name!r}: allowed are {', '.join(allowed)}")
    if at and not re.fullmatch(r"[1-9][0-9]*", size):
        raise InputError(f"environment {name!r}: SIZE is a whole number from 1")
    return (ENVIRONMENTS / folder / "spack.yaml").read_text().replace(SIZE, size)


#: Build tools that every host has: never built.
BUILD_TOOLS = (
    *("gmake", "m4", "perl", "autoconf", "automake", "libtool", "pkgconf"),
    *("diffutils", "findutils", "tar", "bison", "flex", "gettext"),
)
#: Taken from the host if found, else built; but Slurm, which is never built.
FOUND = ("cmake", "python", "openssl", "curl", "git", "slurm", "openssh", "rdma-core")
#: Libraries of the host that Spack cannot find, by their names for pkg-config: Slurm's.
LIBRARIES = ("pmix", "munge")


@dataclass(frozen=True)
class SpackSettings:
    """Result of `setup`, for later commands."""

    #: Folder of Spack, its version, and whether that is the pinned one.
    spack: str
    version: str
    pinned: bool
    #: Recipes given by the user instead of the pinned ones (folder of `repos/spack_repo/builtin`).
    packages: str | None
    #: The machine's externals, a YAML file with a `packages` section.
    machine_file: str | None
    #: URL of sources and built packages for sites without a network.
    mirror: str | None


_SETTINGS = TypeAdapter(SpackSettings)


def _setup_command(machine: str) -> str:
    return command("spack", "setup", "--machine", machine)


def load(layout: SpackLayout) -> SpackSettings:
    """The settings; raises InputError if there are none."""
    if not layout.settings.is_file():
        raise InputError(
            f"Spack is not set up for {layout.machine}: `{_setup_command(layout.machine)}`"
        )
    try:
        return _SETTINGS.validate_json(layout.settings.read_bytes())
    except ValueError:
        raise InputError(
            f"{layout.settings}: not what `{_setup_command(layout.machine)}` writes: run it again"
        ) from None


def find_spack() -> Path | None:
    """The installed Spack: `SPACK_ROOT`, else the one on PATH."""
    if named := os.environ.get("SPACK_ROOT"):
        root = Path(named).absolute()
        if not (root / "bin" / "spack").is_file():
            raise InputError(f"SPACK_ROOT: {root} has no bin/spack")
        return root
    program = shutil.which("spack")
    return Path(program).resolve().parent.parent if program else None


def setup(
    layout: SpackLayout,
    packages: Path | None,
    machine_file: Path | None,
    mirror: str | None,
    say: Callable[[str], None],
) -> SpackSettings:
    """Set up Spack: clones, configuration, compilers and build tools. Raises InputError.

    What is not given is as an earlier setup had it.
    """
    if importlib.util.find_spec("clingo") is None:
        raise MachineError(
            f"{sys.executable} has no clingo, Spack's solver;"
            f" `{setup_command('spack')}` installs it"
        )
    pins = load_pins()
    with locked(layout.lock("setup")):
        before = None
        with suppress(InputError):
            before = load(layout)
            packages = packages or (Path(before.packages) if before.packages else None)
            machine_file = machine_file or (
                Path(before.machine_file) if before.machine_file else None
            )
            mirror = mirror or before.mirror
        _check(packages, machine_file, mirror)
        root = find_spack() or _cloned(layout, "spack", pins.spack, say)
        if packages is None:
            _cloned(layout, "packages", pins.packages, say)
        write_config(layout, mirror, packages or recipes(layout, pins))
        version = spack(layout, root, "--version", log="setup").split()[0]
        if int(version.split(".")[0]) < 1:
            raise MachineError(f"{root}: Spack {version} is too old, 1.0 or newer is needed")
        settings = SpackSettings(
            spack=str(root),
            version=version,
            pinned=f"v{version}" == pins.spack.tag,
            packages=str(packages.resolve()) if packages else None,
            machine_file=str(machine_file.resolve()) if machine_file else None,
            mirror=mirror,
        )
        if settings != before:  # until the search is over, nothing is set up
            layout.settings.unlink(missing_ok=True)
        _search(layout, root, say)
        replace_text(layout.settings, json.dumps(asdict(settings), indent=1) + "\n")
    return settings


def _search(layout: SpackLayout, root: Path, say: Callable[[str], None]) -> None:
    """Add what the host has to the user scope, where Spack leaves what is there.

    It is searched again each time, since the host changes.
    """
    say(f"searching for compilers, build tools and Slurm (log: {layout.log('setup')})")
    find = ("external", "find", "--scope", "user")
    find_compilers(layout, root)
    spack(layout, root, *find, "--not-buildable", *BUILD_TOOLS, log="setup")
    spack(layout, root, *find, *FOUND, log="setup")
    there = packages_in(layout.packages, "user scope") if layout.packages.is_file() else {}
    libraries = {name: found for name in LIBRARIES if (found := by_pkg_config(name))}
    if added := {name: found for name, found in libraries.items() if name not in there}:
        text = yaml.safe_dump({"packages": there | added}, sort_keys=False)
        replace_text(layout.packages, text)


def find_compilers(layout: SpackLayout, root: Path) -> None:
    """Add the host's compilers to the user scope."""
    spack(layout, root, "compiler", "find", "--scope", "user", log="setup")


def by_pkg_config(name: str) -> dict[str, Any] | None:
    """Spack's entry of a library that the host can compile with; None without one."""
    version = ask(["pkg-config", "--modversion", name])
    prefix = ask(["pkg-config", "--variable=prefix", name])
    if not (version.ok and prefix.ok and prefix.stdout.strip()):
        return None
    spec = f"{name}@{version.stdout.strip()}"
    return {"externals": [{"spec": spec, "prefix": prefix.stdout.strip()}]}


def has_external(layout: SpackLayout, settings: SpackSettings, package: str) -> bool:
    """Whether Spack takes a package from the host."""
    for path in (layout.packages, own_file(layout, settings)):
        if path.is_file() and packages_in(path, "packages").get(package, {}).get("externals"):
            return True
    return False


#: Language, as Spack calls it -> its name, and packages of Debian and RHEL with a compiler for it.
LANGUAGES = {
    "c": ("C", "gcc", "gcc"),
    "cxx": ("C++", "g++", "gcc-c++"),
    "fortran": ("Fortran", "gfortran", "gcc-gfortran"),
}


def compilers(layout: SpackLayout, settings: SpackSettings) -> dict[str, dict[str, str]]:
    """Compiler (spec without variants) -> its programs on this host by language (`LANGUAGES`).

    From what Spack found on this host, and the machine's file. Raises InputError if one of them
    cannot be read.
    """
    there: dict[str, dict[str, str]] = {}
    for path in (layout.packages, own_file(layout, settings)):
        for rules in packages_in(path, "packages").values() if path.is_file() else ():
            listed = rules.get("externals")
            for external in listed if isinstance(listed, list) else ():
                if programs := _programs(external):
                    name = str(external.get("spec")).partition(" ")[0]
                    there[name] = programs | there.get(name, {})
    return there


def own_file(layout: SpackLayout, settings: SpackSettings) -> Path:
    """The machine's own packages; the file may be absent."""
    default = ENVIRONMENTS / "machines" / f"{layout.machine}.yaml"
    return Path(settings.machine_file or default)


def c_compiler(layout: SpackLayout, settings: SpackSettings) -> str:
    """The program of Spack's C compiler: GCC before others (`common.yaml`), the newest of them.

    Raises InputError if it has none.
    """
    there = compilers(layout, settings)
    with_c = [name for name, programs in there.items() if "c" in programs]
    if not with_c:
        raise InputError(": ".join(without_compiler(there, layout.machine) or ()))

    def rank(name: str) -> tuple[bool, list[int]]:
        version = name.partition("@")[2]
        return name.startswith("gcc@"), [int(number) for number in re.findall(r"\d+", version)]

    return there[max(with_c, key=rank)]["c"]


def _programs(external: object) -> dict[str, str]:
    """Language -> the program of a compiler of the host for it, if that is there.

    What is no such package is Spack's to reject.
    """
    programs: Any = external
    for key in ("extra_attributes", "compilers"):
        programs = programs.get(key) if isinstance(programs, dict) else None
    if not isinstance(programs, dict):
        return {}
    named = {key: programs[key] for key in LANGUAGES if isinstance(programs.get(key), str)}
    return {key: program for key, program in named.items() if shutil.which(program)}


def without_compiler(there: dict[str, dict[str, str]], machine: str) -> tuple[str, str] | None:
    """The languages for which Spack has no compiler, and what to do; None if it has all."""
    absent = [
        of_language
        for key, of_language in LANGUAGES.items()
        if not any(key in programs for programs in there.values())
    ]
    if not absent:
        return None
    names, debian, rhel = zip(*absent, strict=True)
    return (
        f"Spack has no {' and no '.join(names)} compiler",
        f"apt install {' '.join(debian)}, or dnf install {' '.join(rhel)};"
        f" then `{_setup_command(machine)}`",
    )


def _cloned(layout: SpackLayout, what: str, source: Source, say: Callable[[str], None]) -> Path:
    """The pinned clone, made unless it is there."""
    path = layout.clone(what, source.commit)
    if not path.is_dir():
        say(f"cloning {source.git} {source.tag}")
        clone(source.git, source.tag, source.commit, path)
    return path


def _check(packages: Path | None, machine_file: Path | None, mirror: str | None) -> None:
    """Raise InputError for what a build would fail with, or silently ignore, hours later."""
    if packages and not (packages / "repo.yaml").is_file():
        raise InputError(
            f"--packages: {packages} has no repo.yaml; allowed: the folder"
            " repos/spack_repo/builtin of a copy of the recipes"
        )
    if machine_file:
        packages_in(machine_file, "--machine-file")
    scheme, colon, rest = (mirror or "").partition("://")
    if mirror and not colon:
        raise InputError(f"--mirror: {mirror!r} is no URL; allowed: file:///FOLDER, https://...")
    if scheme == "file" and not Path(rest).is_dir():
        raise InputError(
            f"--mirror: {rest} is not a folder; 'spack mirror create' makes one"
            " (docs/workloads.md#spacks-files-and-sites-without-a-network)"
        )


def packages_in(path: Path, field: str) -> dict[str, Any]:
    """The packages in a file, by name. Raises InputError unless that is what it has."""
    try:
        text = path.read_text()
    except (OSError, ValueError) as error:
        raise InputError(f"{field}: {path}: {' '.join(str(error).split())}") from None
    return packages_of(text, path, field)


def packages_of(text: str, path: Path, field: str) -> dict[str, Any]:
    """The same of a text, which is that of a file."""
    try:
        content = yaml.safe_load(text)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{field}: {path}: {' '.join(str(error).split())}") from None
    packages = content.get(section_name(content, "packages")) if isinstance(content, dict) else None
    if not isinstance(packages, dict) or not all(isinstance(of, dict) for of in packages.values()):
        raise InputError(
            f"{field}: {path} has no section 'packages'; allowed: 'packages:' with a mapping for"
            " each package (docs/workloads.md#spack)"
        )
    return {_MARK.sub("", str(name)): rules for name, rules in packages.items()}


#: What Spack takes off the end of a name: it overrides what has less precedence, or comes before or
#: after that (`packages::`, `openmpi+:`, `all-:`).
_MARK = re.compile(r"[+-]?:?$")


def section_name(content: dict[str, Any], name: str) -> str:
    """The key of a section in Spack's configuration, which may have a mark."""
    return next((key for key in content if _MARK.sub("", str(key)) == name), name)


def recipes(layout: SpackLayout, pins: Pins) -> Path:
    """The builtin recipes within the pinned clone."""
    clone_path = layout.clone("packages", pins.packages.commit)
    return clone_path / "repos" / "spack_repo" / "builtin"


def write_config(layout: SpackLayout, mirror: str | None, builtin: Path) -> None:
    """Write Spack's user scope: one store, caches and stages next to it, no bootstrapping.

    Without `builtin`, Spack would clone other recipes for what it does outside an environment, such
    as finding compilers.
    """
    root = layout.root
    # The store's path is padded, so that a package built here can be moved to a store of any other
    # path without a tool that Spack would have to bootstrap.
    files = {
        "config": {
            "install_tree": {"root": str(layout.store), "padded_length": 128},
            "build_stage": [str(root / "stage")],
            "test_stage": str(root / "test"),
            "source_cache": str(root / "sources"),
            "misc_cache": str(root / "misc"),
            "locks": True,
        },
        "bootstrap": {"enable": False, "root": str(root / "bootstrap")},
        "repos": {"builtin": str(builtin.resolve())},
        "mirrors": {"nimc": {"url": mirror, "signed": False}} if mirror else {},
    }
    layout.config.mkdir(parents=True, exist_ok=True)
    replace_text(layout.slurm_conf, "ClusterName=none\nSlurmctldHost=localhost\n")
    for name, content in files.items():
        text = yaml.safe_dump({name: content}, sort_keys=False)
        replace_text(layout.config / f"{name}.yaml", text)


# Spack's folders, and its runs, isolated from the user's configuration and caches.


#: How long git may take to clone, seconds.
_CLONE_S = 3600.0


@dataclass(frozen=True)
class SpackLayout:
    """The folders under `root`, one root for each machine; nothing is in `~/.spack`."""

    root: Path
    machine: str

    @property
    def config(self) -> Path:
        """Spack's user scope: install tree, caches, mirrors, compilers, externals."""
        return self.root / "config"

    @property
    def packages(self) -> Path:
        """What Spack found on this host, and what the user added."""
        return self.config / "packages.yaml"

    @property
    def slurm_conf(self) -> Path:
        """What Slurm's programs need to say their version; they may find no other."""
        return self.root / "slurm.conf"

    @property
    def store(self) -> Path:
        """The install tree that all environments share."""
        return self.root / "store"

    @property
    def settings(self) -> Path:
        """Result of `setup`."""
        return self.root / "setup.json"

    def clone(self, what: str, commit: str) -> Path:
        """A pinned clone of Spack or of its recipes."""
        return self.root / "pinned" / f"{what}-{commit[:12]}"

    def environment(self, name: str) -> Path:
        """Folder of Spack's environment, with lock and view."""
        return self.root / "environments" / name

    def stamp(self, name: str) -> Path:
        """Record of what was built, and from which inputs."""
        return self.environment(name) / "built.json"

    def lock(self, name: str) -> Path:
        """Locked while an environment, or the setup, is changed."""
        return self.root / "locks" / f"{name}.lock"

    def log(self, name: str) -> Path:
        """Output of Spack."""
        return self.root / "logs" / f"{name}.log"


def layout(machine: str, root: Path | None = None) -> SpackLayout:
    """The layout of a machine's Spack. Raises InputError for a name that is a path.

    `root`: by default `NIMC_SPACK_DIR`, else a folder in the user's cache.
    """
    if not re.fullmatch(r"\w[\w.+-]*", machine):
        raise InputError(f"--machine: {machine!r} found; allowed: letters, digits and ._+-")
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    root = root or Path(os.environ.get("NIMC_SPACK_DIR") or Path(cache, "nimc/spack"))
    return SpackLayout(root.resolve() / machine, machine)


def isolated(layout: SpackLayout, environ: dict[str, str]) -> dict[str, str]:
    """The environment for Spack: its user scope and caches are under the layout's root.

    This Python's virtual environment is removed, since builds would find the MPI of its wheels.
    LOGNAME is set, since mpiP's build needs it and batch jobs and containers often lack it.
    """
    rest = {
        name: value
        for name, value in environ.items()
        if not name.startswith("SPACK_") and name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    if sys.prefix != sys.base_prefix:
        wheels = Path(sys.prefix, "bin").resolve()  # PATH may have it by a link's name
        folders = rest.get("PATH", os.defpath).split(":")
        rest["PATH"] = ":".join(f for f in folders if Path(f).resolve() != wheels)
    return {
        "LOGNAME": user_name(os.getuid()),
        **rest,
        "SLURM_CONF": str(layout.slurm_conf),
        "SPACK_PYTHON": sys.executable,
        "SPACK_USER_CONFIG_PATH": str(layout.config),
        "SPACK_SYSTEM_CONFIG_PATH": str(layout.root / "no-system-scope"),
        "SPACK_USER_CACHE_PATH": str(layout.root / "cache"),
    }


def spack(
    layout: SpackLayout,
    root: Path,
    *words: str,
    log: str,
    watch: Callable[[str], None] | None = None,
) -> str:
    """Output of a Spack command, logged as it runs; `watch` gets each line. Raises MachineError."""
    path = layout.log(log)
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [str(root / "bin" / "spack"), "--color", "never", *words]
    if not Path(command[0]).is_file():
        raise MachineError(
            f"{command[0]}: no such file; `{_setup_command(layout.machine)}` clones Spack"
        )
    printed: list[str] = []
    with path.open("a") as file:
        file.write(f"$ spack {' '.join(words)}\n")
        file.flush()
        begin_b = file.tell()
        environ = isolated(layout, dict(os.environ))
        with subprocess.Popen(
            command,
            cwd=START_FOLDER,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=file,
            errors="replace",
        ) as process:
            assert process.stdout
            for line in process.stdout:
                printed.append(line)
                if watch:
                    watch(line)
                file.write(line)
                file.flush()
    if process.returncode != 0:
        with path.open("rb") as log_file:
            log_file.seek(begin_b)
            reason = reason_in(log_file.read().decode(errors="replace"))
        raise MachineError(f"Spack failed at {log}: {reason} (log: {path})")
    return "".join(printed)


#: An error of Spack's; the package that it has begun; a line of a build's log that it quotes.
_ERROR = re.compile(r"^==> (?:\[.*?\] )?Error: *")
_BEGUN = re.compile(r"^==> (?:\[.*?\] )?Installing (\S+)-\w{32}\b")
_OF_BUILD = re.compile(r"^\s+>> \d+ +")
#: So many lines below an error are shown.
_REASONS = 3


#: What the installer of Spack 1.2 prints of a package that fails, and of its log: a header, and
#: lines with a number, a mark, or neither.
_FAILED = re.compile(r"^\[x\] \w+ (\S+) failed(?:: (\S+))?")
_LOG_LINES = re.compile(r"^-- lines \d+ to \d+ --$")
_LOG_LINE = re.compile(r"^(>|  ) *(?:\d+  )?(.+)")


def _new_reason_in(lines: Sequence[str]) -> str | None:
    """The first package that failed, by the installer of Spack 1.2, and the error in its log."""
    failed = next(filter(None, map(_FAILED.match, lines)), None)
    if failed is None:
        return None
    header = next((index for index, line in enumerate(lines) if _LOG_LINES.match(line)), len(lines))
    log = [*filter(None, map(_LOG_LINE.match, lines[header + 1 :]))]
    marked = [line[2] for line in log if line[1] == ">"]
    errors = marked or [line[2] for line in log if errs(line[2])]
    why = errors[0].strip() if errors else f"failed; its log is {failed[2] or 'not kept'}"
    return f"{failed[1]}: {why}"


def reason_in(text: str) -> str:
    """The first error in what Spack printed, the lines that it goes on in, and its package."""
    lines = text.splitlines()
    if said := _new_reason_in(lines):
        return said
    first = next((at for at, line in enumerate(lines) if _ERROR.match(line)), None)
    if first is None:
        return last_line(text)
    said = _ERROR.sub("", lines[first]).strip()
    below: list[str] = []
    for line in lines[first + 1 :]:
        text = line.strip()
        if (text and not line.startswith((" ", "\t"))) or (below and not text):
            break
        below += [text] if text else []
    quoted = next((line for line in lines[first + 1 :] if _OF_BUILD.match(line)), None)
    if quoted:
        below = [*below[:1], _OF_BUILD.sub("", quoted)]
    if below:
        said += (" " if said.endswith(":") else "; ") + "; ".join(below[:_REASONS])
    begun = [match[1] for line in lines[:first] if (match := _BEGUN.match(line))]
    return f"{begun[-1]}: {said}" if begun else said


def clone(git: str, tag: str, commit: str, into: Path) -> None:
    """Make a shallow clone and check that it is the pinned commit."""
    into.parent.mkdir(parents=True, exist_ok=True)
    part = into.with_name(f"{into.name}.part{os.getpid()}")
    try:
        _git("clone", "--quiet", "--depth", "1", "--branch", tag, git, str(part))
        head = _git("-C", str(part), "rev-parse", "HEAD").strip()
        if head != commit:
            raise MachineError(f"{git}: tag {tag} is {head}, not the pinned {commit}")
        part.rename(into)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _git(*words: str) -> str:
    return ask(["git", *words], timeout_s=_CLONE_S).required()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a file; a second process waits. The kernel releases the lock when the process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with private_lock(path) as lock:
        lock.take(None)
        yield
