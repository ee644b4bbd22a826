"""Settings of a ReFrame configuration: partitions, environments, features, places, hosts."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from nimc.readiness.checks import CheckVariables
from records.checkout import ROOT, python_code, python_path
from records.errors import InputError, suggestion
from records.programs import ask

Partitions = Sequence[Mapping[str, Any]]
#: Begins the line with the settings; the file may print others, and warnings.
_MARK = "nimc: settings "


@dataclass(frozen=True, kw_only=True)
class ReframeSettings:
    """The definitions and settings of a ReFrame configuration."""

    #: This process's environment with the configuration's changes (`SLURM_CONF`).
    environment: dict[str, str]
    #: Partitions of the machine's system, as in the file; empty if it cannot be read.
    partitions: list[dict[str, Any]] = field(default_factory=list)
    #: Its environments, as in the file.
    environs: list[dict[str, Any]] = field(default_factory=list)
    #: Names of the system's hosts, as regular expressions.
    hostnames: list[str] = field(default_factory=list)
    #: Name of the system: that of the file, which may define others.
    system: str = ""
    #: The line of the file with what is wrong, if it is known, and what that is, in one line.
    fault_line: int | None = None
    fault: str | None = None


def settings_of(config: Path) -> ReframeSettings:
    """Run a ReFrame configuration in a separate process and return its settings.

    Once for the same file in the same environment.
    """
    text = config.read_bytes() if config.is_file() else b""
    return _settings_of(config, text, frozenset(os.environ.items()))


@lru_cache(maxsize=8)
def _settings_of(
    config: Path, _text: bytes, _environment: frozenset[tuple[str, str]]
) -> ReframeSettings:
    code = (
        "import json, os, runpy; site = runpy.run_path(sys.argv[1])['site_configuration'];"
        "systems = site['systems'];"
        "parts = [part for system in systems for part in system['partitions']];"
        "environs = site.setdefault('environments', []);"
        "[part['name'] for part in [*systems, *parts, *environs]];"
        f"print('\\n{_MARK}' + json.dumps([{{**os.environ}}, site], default=str))"
    )
    answer = ask(python_code(code, str(config)), {**os.environ, "PYTHONPATH": python_path()})
    with suppress(ValueError, TypeError):
        if answer.ok:
            _, _, rest = answer.text.partition(f"\n{_MARK}")
            environment, site = json.loads(rest.partition("\n")[0])
            named = [system for system in site["systems"] if system["name"] == config.stem]
            system = named[0] if named else {}
            fault_line, fault = _fault(config, site) or (None, None)
            return ReframeSettings(
                environment=environment,
                partitions=system.get("partitions", []),
                environs=site["environments"],
                hostnames=system.get("hostnames", []),
                system=config.stem,
                fault_line=fault_line,
                fault=fault,
            )
    lines = re.findall(rf'File "{re.escape(str(config))}", line (\d+)', answer.text)
    return ReframeSettings(
        environment=dict(os.environ),
        fault_line=int(lines[-1]) if lines else None,
        fault=f"cannot be read: {answer.last}",
    )


def _fault(config: Path, site: Mapping[str, Any]) -> tuple[int, str] | None:
    """Line and text of the first fault in a configuration, by ReFrame's own schema; None if none.

    ReFrame itself would take a second.
    """
    from jsonschema import Draft7Validator  # read only here, since it takes a tenth of a second

    # A file need not have every section: ReFrame has defaults for the others.
    for error in Draft7Validator({**_schema(), "required": []}).iter_errors(site):
        prefix = "".join(f"{part}: " for part in error.absolute_path if isinstance(part, str))
        value, schema = error.instance, error.schema
        if error.validator == "additionalProperties":
            allowed = schema["properties"]
            key = next(key for key in value if key not in allowed)
            text = f"unknown key '{key}'{suggestion(key, allowed)}"
            text += f"; allowed: {', '.join(sorted(allowed))}"
            return line_of(config, key), prefix + text
        if error.validator == "required":
            missing = next(key for key in schema["required"] if key not in value)
            name = str(value.get("name", ""))
            return line_of(config, name), f"{prefix}{f'{name}: ' if name else ''}{missing} missing"
        words = schema.get("enum")
        expected = ", ".join(map(str, words)) if words else error.message
        return line_of(config, str(value)), f"{prefix}{value!r:.60} found; allowed: {expected}"
    names = [str(system["name"]) for system in site["systems"]]
    if config.stem in names:
        return None
    quoted = ", ".join(map(repr, names)) or "none"
    text = f"{quoted} found; allowed: one with the name of the file, {config.stem!r}"
    return line_of(config, next(iter(names), "")), f"systems: name: {text}"


def line_of(file: Path, word: str) -> int:
    """The first line of a file that has the word in quotes; 1 if none has."""
    quoted = re.compile(rf"""["']{re.escape(word)}["']""")
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((number for number, line in enumerate(lines, 1) if quoted.search(line)), 1)


@lru_cache(maxsize=1)
def _schema() -> dict[str, Any]:
    """ReFrame's schema, read without importing ReFrame."""
    spec = importlib.util.find_spec("reframe")
    file = Path(str(spec and spec.origin)).with_name("schemas") / "config.json"
    return dict(json.loads(file.read_text()))


def target_partitions(partitions: Partitions, name: str | None) -> Partitions:
    """Partitions that targets may come from: the one of that name, else any."""
    return [part for part in partitions if name in (None, part.get("name"))]


def features_in_words(needed: Sequence[str]) -> str:
    """`wheels or spack` of `+wheels` and `+spack`; nothing of places."""
    return " or ".join(word.removeprefix("+") for word in needed if word.startswith("+"))


#: Conditions on features that are judged here: `+a -b`.
_FEATURES = re.compile(r"[+-][\w.-]+( [+-][\w.-]+)*")


@dataclass(frozen=True, kw_only=True)
class ReframePlace:
    """A place where ReFrame may run a check: an environment in a partition, by the settings."""

    partition: str
    environment: str
    features: frozenset[str]
    #: C compiler; empty if the environment has none.
    compiler: str
    #: Modules that both load, by name.
    modules: tuple[str, ...] = ()
    #: The partition's launcher, as ReFrame names it.
    launcher: str = "local"
    #: Variables that both set, in order.
    variables: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """Return the place as ReFrame writes it."""
        return f"{self.partition}+{self.environment}"

    def refuses(self, check: CheckVariables) -> str:
        """Return why it cannot run a check, whatever hosts or nodes have; empty if it may."""
        if not self.accepted_by(check.environs):
            features = features_in_words(check.environs)
            return f"no feature {features}" if features else "not one of its valid places"
        if not check.compiles or self.compiler or (check.from_spack and "spack" in self.features):
            return ""
        return "no compiler: 'cc' is empty"

    def accepted_by(self, conditions: Sequence[str]) -> bool:
        """Return whether any of a check's conditions (`valid_prog_environs`) holds.

        A condition on properties, `%name=value`, is not judged: it holds.
        """
        return any(
            condition in ("*", self.environment, self.name)
            or "%" in condition
            or (
                _FEATURES.fullmatch(condition)
                and all(
                    (word[1:] in self.features) == (word[0] == "+") for word in condition.split()
                )
            )
            for condition in conditions
        )


def places_of(settings: ReframeSettings, partitions: Partitions, system: str) -> list[ReframePlace]:
    """Places of these partitions, in the order in which a check takes the first that it can."""
    return [
        ReframePlace(
            partition=str(part.get("name")),
            environment=str(name),
            features=frozenset(map(str, environ.get("features", []))),
            compiler=str(environ.get("cc", "cc")),
            modules=(*_modules(part), *_modules(environ)),
            launcher=str(part.get("launcher", "local")),
            variables=tuple(
                (str(name), value)
                for source in (part, environ)
                for name, value in source.get("env_vars", [])
            ),
        )
        for part in partitions
        for name in part.get("environs", [])
        for environ in _defined(settings.environs, str(name), system, str(part.get("name")))
    ]


def without_place(
    checks: Mapping[str, CheckVariables], places: Sequence[ReframePlace]
) -> list[str]:
    """Checks that no place accepts, whatever this host or the nodes have."""
    return [
        name
        for name, check in checks.items()
        if all(combination.refuses(check) for combination in places)
    ]


def needed(check: CheckVariables) -> str:
    """Return what a check needs of an environment, in words."""
    features = features_in_words(check.environs)
    parts = [f"features: {features}"] if features else []
    if not check.environs:
        parts.append("a place in the class's valid_systems and valid_prog_environs")
    return " and ".join([*parts, "a C compiler, 'cc'"] if check.compiles else parts)


def _defined(
    environs: Sequence[Mapping[str, Any]], name: str, system: str, partition: str
) -> Iterator[Mapping[str, Any]]:
    """The environment of that name whose target is the most specific, if there is one."""
    for target in (f"{system}:{partition}", system, "*"):
        for environ in environs:
            if environ.get("name") == name and target in environ.get("target_systems", ["*"]):
                yield environ
                return


def _modules(source: Mapping[str, Any]) -> Iterator[str]:
    """Names of the modules of a partition or environment; a collection is no module."""
    for module in source.get("modules", []):
        if isinstance(module, str):
            yield module
        elif isinstance(module, Mapping) and not module.get("collection"):
            yield str(module.get("name"))


#: The machine of a host that no configuration names.
LOCALHOST = "localhost"


def default_machine() -> str:
    """The machine whose configuration in `configs/` names this host, as ReFrame finds it."""
    configs = sorted((ROOT / "configs").glob("*.py"))
    hostnames = {config.stem: settings_of(config).hostnames for config in configs}
    return matching(hostnames, socket.gethostname())


def matching(hostnames: Mapping[str, Sequence[str]], host: str) -> str:
    """The machine with a pattern that `host` begins with, as in ReFrame; else `localhost`.

    Raises InputError if there are several.
    """
    machines = [
        machine
        for machine, patterns in hostnames.items()
        if any(pattern != ".*" and re.match(pattern, host) for pattern in patterns)
    ]
    if len(machines) > 1:
        raise InputError(
            f"--machine: required, since 'hostnames' of several machines in configs/ match host"
            f" '{host}'; allowed: {', '.join(machines)}"
        )
    return machines[0] if machines else LOCALHOST
