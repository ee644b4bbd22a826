"""Reads a ReFrame configuration: its partitions, environments, features and hosts.

The configuration of a machine is `configs/MACHINE.py`. It defines a system with the machine's name.
"""

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

from nimc.readiness.checks import CheckDescription
from records.checkout import ROOT, python_code, python_path
from records.errors import InputError, suggestion
from records.programs import ask

#: Partitions, each with its settings as in the configuration.
Partitions = Sequence[Mapping[str, Any]]
#: Start of the output line that has the settings. The configuration may print other lines.
_MARK = "nimc: settings "


@dataclass(frozen=True, kw_only=True)
class ReframeSettings:
    """The settings of a ReFrame configuration."""

    #: Environment variables of this process, with the changes that the configuration makes to them
    #: (for example to `SLURM_CONF`).
    environment: dict[str, str]
    #: Partitions of the machine's system, unchanged; empty if the file cannot be read.
    partitions: list[dict[str, Any]] = field(default_factory=list)
    #: Environments of the file, unchanged.
    environs: list[dict[str, Any]] = field(default_factory=list)
    #: Regular expressions for the names of the system's hosts.
    hostnames: list[str] = field(default_factory=list)
    #: Name of the machine's system, which is also the name of the file. The file may define other
    #: systems.
    system: str = ""
    #: Number of the line with the fault; None if it is not known or the file has no fault.
    fault_line: int | None = None
    #: The first fault of the file, in one line; None if there is none.
    fault: str | None = None


def settings_of(config: Path) -> ReframeSettings:
    """Run a ReFrame configuration in a separate process and return its settings.

    The same file in the same environment is run only once.
    """
    content = config.read_bytes() if config.is_file() else b""
    return _settings_of(config, content, frozenset(os.environ.items()))


@lru_cache(maxsize=8)
def _settings_of(
    config: Path, _content: bytes, _environment: frozenset[tuple[str, str]]
) -> ReframeSettings:
    # The code reads the names of systems, partitions and environments, so that the process fails if
    # one of them has no name.
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
            _, _, after_mark = answer.text.partition(f"\n{_MARK}")
            environment, site = json.loads(after_mark.partition("\n")[0])
            systems = [system for system in site["systems"] if system["name"] == config.stem]
            system = systems[0] if systems else {}
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
        fault=f"cannot be read: {answer.last_line}",
    )


def _fault(config: Path, site: Mapping[str, Any]) -> tuple[int, str] | None:
    """Return the line number and the text of the first fault; None if the file has no fault.

    The file is checked with ReFrame's own schema. ReFrame itself would take a second for this
    check. The file must also define a system with the name of the file.
    """
    from jsonschema import Draft7Validator  # not at the top: the import takes 0.1 s

    # No section is required, since ReFrame has defaults for missing sections.
    for error in Draft7Validator({**_schema(), "required": []}).iter_errors(site):
        prefix = "".join(f"{part}: " for part in error.absolute_path if isinstance(part, str))
        value, schema = error.instance, error.schema
        if error.validator == "additionalProperties":
            allowed_keys = schema["properties"]
            key = next(key for key in value if key not in allowed_keys)
            hint = suggestion(key, allowed_keys)
            fault = f"unknown key '{key}'{hint}; allowed: {', '.join(sorted(allowed_keys))}"
            return line_of(config, key), f"{prefix}{fault}"
        if error.validator == "required":
            missing = next(key for key in schema["required"] if key not in value)
            name = str(value.get("name", ""))
            return line_of(config, name), f"{prefix}{f'{name}: ' if name else ''}{missing} missing"
        allowed_values = schema.get("enum")
        allowed = ", ".join(map(str, allowed_values)) if allowed_values else error.message
        return line_of(config, str(value)), f"{prefix}{value!r:.60} found; allowed: {allowed}"
    names = [str(system["name"]) for system in site["systems"]]
    if config.stem in names:
        return None
    quoted = ", ".join(map(repr, names)) or "none"
    fault = f"{quoted} found; allowed: one with the name of the file, {config.stem!r}"
    return line_of(config, next(iter(names), "")), f"systems: name: {fault}"


def line_of(file: Path, word: str) -> int:
    """Return the number of the first line with the word in quotes; 1 if there is no such line."""
    quoted = re.compile(rf"""["']{re.escape(word)}["']""")
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((number for number, line in enumerate(lines, 1) if quoted.search(line)), 1)


@lru_cache(maxsize=1)
def _schema() -> dict[str, Any]:
    """Return ReFrame's schema of configurations, without importing ReFrame."""
    spec = importlib.util.find_spec("reframe")
    file = Path(str(spec and spec.origin)).with_name("schemas") / "config.json"
    return dict(json.loads(file.read_text()))


def target_partitions(partitions: Partitions, name: str | None) -> Partitions:
    """Return the partitions from which targets (the application's nodes) may come.

    These are the partitions with this name, or all partitions if `name` is None.
    """
    return [partition for partition in partitions if name in (None, partition.get("name"))]


def features_in_words(conditions: Sequence[str]) -> str:
    """Return the required features in words, such as `wheels or spack` for `+wheels` and `+spack`.

    Conditions that do not begin with `+` are left out.
    """
    features = [word.removeprefix("+") for word in conditions if word.startswith("+")]
    return " or ".join(features)


#: A condition on features: `+a -b` requires `a` and excludes `b`.
_FEATURE_CONDITION = re.compile(r"[+-][\w.-]+( [+-][\w.-]+)*")


@dataclass(frozen=True, kw_only=True)
class PartitionEnvironment:
    """An environment of a partition, in which ReFrame may run checks."""

    #: Name of the partition.
    partition: str
    #: Name of the environment.
    environment: str
    features: frozenset[str]
    #: The C compiler; empty if the environment has none.
    compiler: str
    #: Names of the modules that the partition and the environment load.
    modules: tuple[str, ...] = ()
    #: ReFrame's name of the partition's launcher.
    launcher: str = "local"
    #: Names and values of the environment variables that the partition and then the environment
    #: set.
    variables: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """Return partition and environment in ReFrame's form, `PARTITION+ENVIRONMENT`."""
        return f"{self.partition}+{self.environment}"

    def refusal(self, check: CheckDescription) -> str:
        """Return why the settings do not allow a check in this environment; empty if they do."""
        if not self.accepted_by(check.environs):
            features = features_in_words(check.environs)
            return f"no feature {features}" if features else "not one of its valid environments"
        has_spack_compiler = check.from_spack and "spack" in self.features
        if check.compiles and not self.compiler and not has_spack_compiler:
            return "no compiler: 'cc' is empty"
        return ""

    def accepted_by(self, conditions: Sequence[str]) -> bool:
        """Return whether this environment fulfils a check's conditions (`valid_prog_environs`).

        One fulfilled condition is enough. A condition on properties, `%name=value`, is not checked
        and counts as fulfilled.
        """
        return any(map(self._fulfils, conditions))

    def _fulfils(self, condition: str) -> bool:
        if condition in ("*", self.environment, self.name) or "%" in condition:
            return True
        if not _FEATURE_CONDITION.fullmatch(condition):
            return False
        signed_features = [(word[:1], word[1:]) for word in condition.split()]
        return all((feature in self.features) == (sign == "+") for sign, feature in signed_features)


def partition_environments(
    settings: ReframeSettings, partitions: Partitions, system: str
) -> list[PartitionEnvironment]:
    """Return the environments of these partitions, in order.

    A check runs in the first environment that it can use.
    """
    environments = []
    for partition in partitions:
        partition_name = str(partition.get("name"))
        for name in partition.get("environs", []):
            environ = _environ_named(str(name), settings.environs, system, partition_name)
            if environ is None:
                continue
            variables = [*partition.get("env_vars", []), *environ.get("env_vars", [])]
            environments.append(
                PartitionEnvironment(
                    partition=partition_name,
                    environment=str(name),
                    features=frozenset(map(str, environ.get("features", []))),
                    compiler=str(environ.get("cc", "cc")),
                    modules=(*_modules(partition), *_modules(environ)),
                    launcher=str(partition.get("launcher", "local")),
                    variables=tuple((str(variable), value) for variable, value in variables),
                )
            )
    return environments


def checks_without_environment(
    checks: Mapping[str, CheckDescription], environments: Sequence[PartitionEnvironment]
) -> list[str]:
    """Return the checks that the settings allow in none of these environments."""
    return [
        name
        for name, check in checks.items()
        if all(environment.refusal(check) for environment in environments)
    ]


def needs_in_words(check: CheckDescription) -> str:
    """Return in words what a check needs from an environment."""
    features = features_in_words(check.environs)
    parts = [f"features: {features}"] if features else []
    if not check.environs:
        parts.append("a name that the class's valid_systems and valid_prog_environs allow")
    if check.compiles:
        parts.append("a C compiler, 'cc'")
    return " and ".join(parts)


def _environ_named(
    name: str, environs: Sequence[Mapping[str, Any]], system: str, partition: str
) -> Mapping[str, Any] | None:
    """Return the settings of the environment `name` in a partition of a system.

    If several environments have this name, the one with the most specific target system is
    returned. Returns None if there is none for this partition.
    """
    for target in (f"{system}:{partition}", system, "*"):
        for environ in environs:
            if environ.get("name") == name and target in environ.get("target_systems", ["*"]):
                return environ
    return None


def _modules(source: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the modules in the settings of a partition or an environment.

    Collections of modules are left out.
    """
    for module in source.get("modules", []):
        if isinstance(module, str):
            yield module
        elif isinstance(module, Mapping) and not module.get("collection"):
            yield str(module.get("name"))


#: Name of the machine for hosts that no configuration matches.
LOCALHOST = "localhost"


def default_machine() -> str:
    """Return the name of the machine of this host (`machine_of_host`). Raises InputError."""
    configs = sorted((ROOT / "configs").glob("*.py"))
    hostnames = {config.stem: settings_of(config).hostnames for config in configs}
    return machine_of_host(hostnames, socket.gethostname())


def machine_of_host(hostnames: Mapping[str, Sequence[str]], host: str) -> str:
    """Return the machine with a pattern that matches the start of the host name `host`.

    ReFrame finds systems in the same way. The pattern `.*` is ignored. If no machine matches, the
    result is `localhost`. Raises InputError if several machines match.
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
