"""Places where ReFrame may run a check: the pairs of a partition and an environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from campaigns.host.settings import Partitions, ReframeSettings, features_in_words
from campaigns.request.checks import CheckVariables

#: Conditions on features that are judged here: `+a -b`.
_FEATURES = re.compile(r"[+-][\w.-]+( [+-][\w.-]+)*")


@dataclass(frozen=True)
class ReframePlace:
    """An environment in a partition, as the settings have them."""

    partition: str
    environment: str
    features: frozenset[str]
    #: C compiler; empty if the environment has none.
    compiler: str
    #: Modules that both load, by name.
    modules: tuple[str, ...] = ()

    def accepted_by(self, conditions: Sequence[str]) -> bool:
        """Whether any of a check's conditions (`valid_prog_environs`) holds.

        A condition on properties, `%name=value`, is not judged: it holds.
        """
        return any(self._holds(condition) for condition in conditions)

    def _holds(self, condition: str) -> bool:
        if condition in ("*", self.environment) or "%" in condition:
            return True
        if not _FEATURES.fullmatch(condition):
            return False
        return all((word[1:] in self.features) == (word[0] == "+") for word in condition.split())


def places_of(settings: ReframeSettings, partitions: Partitions, system: str) -> list[ReframePlace]:
    """Places of these partitions, in the order in which a check takes the first that it can."""
    return [
        ReframePlace(
            partition=str(part.get("name")),
            environment=str(name),
            features=frozenset(map(str, environ.get("features", []))),
            compiler=str(environ.get("cc", "cc")),
            modules=(*_modules(part), *_modules(environ)),
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
        if not any(
            place.accepted_by(check.environs) and (place.compiler or not check.compiles)
            for place in places
        )
    ]


def needed(check: CheckVariables) -> str:
    """What a check needs of an environment, in words."""
    features = "" if "*" in check.environs else features_in_words(check.environs)
    compiler = "a C compiler, 'cc'" if check.compiles else ""
    return " and ".join(filter(None, [features and f"features: {features}", compiler]))


def _defined(
    environs: Sequence[Mapping[str, Any]], name: str, system: str, partition: str
) -> Iterator[Mapping[str, Any]]:
    """The environment of that name whose target is the most specific, if there is one."""
    for target in (f"{system}:{partition}", system, "*"):
        for environ in environs:
            if environ.get("name") == name and target in environ.get("target_systems", ["*"]):
                yield environ
                return


def _modules(thing: Mapping[str, Any]) -> Iterator[str]:
    """Names of its modules; collections have no module of their name."""
    for module in thing.get("modules", []):
        if isinstance(module, str):
            yield module
        elif isinstance(module, Mapping) and not module.get("collection"):
            yield str(module.get("name"))
