"""The programs that make writes, behind one small interface."""

from __future__ import annotations

from reframe_tests.injection.injectors.base import Injector
from reframe_tests.injection.injectors.spin import Spin
from reframe_tests.injection.injectors.ucx import Ucx

#: Name -> injector.
INJECTORS: dict[str, Injector] = {injector.name: injector for injector in (Ucx(), Spin())}
