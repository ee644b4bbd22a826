"""What ReFrame 4.10 has no public name for; each function says why it is needed.

No other module uses a private name of ReFrame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import reframe as rfm


def pin_prefix(cls: Any, base: type) -> None:
    """Take a class's sources from where a base has them: `pin_prefix` pins a class to itself."""
    cls._rfm_pinned_prefix = vars(base)["_rfm_prefix"]


def sanity_function(check: rfm.RegressionTest) -> Callable[[Any], Any] | None:
    """Sanity function of a check's class, to call on any output; ReFrame calls it on its job's."""
    function: Callable[[Any], Any] | None = getattr(type(check), "_rfm_sanity", None)
    return function


def replace_sanity(check: Any, function: Callable[[], Any]) -> None:
    """Judge a check by this: beside a class's function `sanity_patterns` may not be set."""
    check._rfm_sanity = function


def reference(check: rfm.RegressionTest, name: str) -> tuple[Any, Any, Any, Any]:
    """Value, bounds and unit of a figure's reference: its forms are resolved for a log only."""
    known: Any = ()
    with suppress(KeyError):  # it has none
        known = check._resolve_reference()[f"{check.current_partition.fullname}:{name}"]
    parts = (*getattr(known, "data", known), None, None, None, None)
    return parts[0], parts[1], parts[2], parts[3]


@contextmanager
def outputs_of_job(job: Any, out: str, err: str) -> Iterator[None]:
    """Let these be a job's outputs: its own can be read, but not set."""
    before = job._stdout, job._stderr
    job._stdout, job._stderr = out, err
    try:
        yield
    finally:
        job._stdout, job._stderr = before
