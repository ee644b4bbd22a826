"""The programs that make writes and reads, behind one small interface."""

from __future__ import annotations

from typing import get_args

from conductor.injectors.base import Injector
from conductor.injectors.mpi_put import MpiPut
from conductor.injectors.perftest import Perftest
from conductor.injectors.spin import Spin
from conductor.injectors.ucx import Ucx
from records import units
from records.errors import InputError
from records.sample import Direction

#: Name -> injector.
INJECTORS: dict[str, Injector] = {
    injector.name: injector
    for injector in (
        Perftest(),
        Ucx(),
        MpiPut(),
        Spin(),
        Perftest("perftest_read", "read"),
        Ucx("ucx_read", "read"),
        MpiPut("mpi_put_read", "read"),
        MpiPut("mpi_put_both", "both"),
        MpiPut("mpi_put_receive", "receive"),
    )
}


def injector_for(name: str, direction: str = "write") -> Injector:
    """Return the injector of this name, or its counterpart in another direction: `NAME_read`.

    With the default direction, a name such as `ucx_read` keeps its own direction. A control has no
    direction. Raises ValueError, which says what is allowed.
    """
    if direction not in get_args(Direction):
        raise ValueError(f"direction {direction!r}: allowed are {', '.join(get_args(Direction))}")
    if name not in INJECTORS:
        raise ValueError(f"injector {name!r}: allowed are {', '.join(INJECTORS)}")
    injector = INJECTORS[name]
    if direction in ("write", injector.direction) or not injector.writes:
        return injector
    if counterpart := INJECTORS.get(f"{name}_{direction}"):
        return counterpart
    allowed = [
        candidate.name.removesuffix(f"_{direction}")
        for candidate in INJECTORS.values()
        if candidate.direction == direction
    ]
    raise ValueError(
        f"injector {name!r}: it has no direction {direction}; allowed: {', '.join(allowed)}"
    )


def writing_rate_b_s(injector: Injector, rate: str) -> float | None:
    """Return the rate of each writer, bytes per second; None: full rate.

    Raises InputError for a control, which writes nothing and has no rate, and for an invalid rate.
    """
    if rate == "full":
        return None
    if not injector.writes:
        writing_injectors = [
            name
            for name, candidate in INJECTORS.items()
            if candidate.writes and candidate.direction == injector.direction
        ]
        raise InputError(
            f"rate: {rate!r} found; {injector.name} writes nothing; allowed: full, or another"
            f" injector ({', '.join(writing_injectors)})"
        )
    return units.rate_b_s(rate, "rate")
