"""The modules that ReFrame's job script loads for a check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import reframe as rfm
from reframe.core.runtime import runtime

#: Module systems that load nothing, or that do not list what they loaded.
_UNLISTED = ("nomod", "spack")


def requested_modules(check: rfm.RegressionTest) -> list[str]:
    """Modules of the check's partition, environment and of itself, in this order.

    Names are those that ReFrame's mappings give. Collections have no module of their name.
    """
    system = runtime().modules_system
    if system.name in _UNLISTED:
        return []
    places = (check.current_partition.local_env, check.current_environ)
    asked = [*(each for place in places for each in place.modules_detailed), *check.modules]
    return [module for name in _names(asked) for module in system.resolve_module(name)]


def _names(asked: Iterable[Any]) -> Iterable[str]:
    for module in asked:
        if not isinstance(module, Mapping):
            yield str(module)
        elif not module.get("collection"):
            yield str(module["name"])
