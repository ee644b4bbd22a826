"""The programs that make writes, behind one small interface."""

from __future__ import annotations

from reframe_tests.injection.injectors.base import Injector
from reframe_tests.injection.injectors.perftest import Perftest
from reframe_tests.injection.injectors.spin import Spin
from reframe_tests.injection.injectors.ucx import Ucx

#: Name -> injector.
INJECTORS: dict[str, Injector] = {
    injector.name: injector for injector in (Perftest(), Ucx(), Spin())
}


def get(name: str) -> Injector:
    """The injector of that name; raises ValueError, which names the allowed ones."""
    if name not in INJECTORS:
        raise ValueError(f"injector {name!r}: allowed are {', '.join(INJECTORS)}")
    return INJECTORS[name]
