"""What a GPU's PCIe link passes, as NVIDIA's management library (NVML) says: a witness of writes.

The library gives a rate, of the last 20 ms, in units that its documentation calls KB/s. It is
sampled ten times a second and summed up, so that it reads as a counter of bytes. No device of ours
has shown how right that is: `conductor.judge` compares it with what it gave for the writers alone.
Standard library only.
"""

from __future__ import annotations

import ctypes
import threading
import time
from functools import cache
from typing import Literal

#: Begins the name of such a device, `pcie:0000:01:00.0`, and of its counter.
PREFIX = "pcie:"
_LIBRARY = "libnvidia-ml.so.1"
#: Seen from the host, and the library's number of it, seen from the GPU.
_OF_GPU = {"received": 0, "sent": 1}
_UNIT_B = 1000
#: Time between two samples of both directions, each of which takes 20 ms, seconds.
_REST_S = 0.06


class PcieError(Exception):
    """The library says nothing of a GPU. The message is one line."""


class _Link:
    """A GPU's link."""

    def __init__(self, pci: str) -> None:
        try:
            self._library = ctypes.CDLL(_LIBRARY)
        except OSError as error:
            raise PcieError(str(error)) from None
        self._gpu = ctypes.c_void_p()
        self._call("nvmlInit_v2")
        of = ctypes.c_char_p(pci.encode())
        self._call("nvmlDeviceGetHandleByPciBusId_v2", of, ctypes.byref(self._gpu))

    def _call(self, name: str, *words: object) -> None:
        function = getattr(self._library, name, None)
        if function is None:
            raise PcieError(f"{_LIBRARY} has no {name}")
        if status := function(*words):
            text = self._library.nvmlErrorString
            text.restype = ctypes.c_char_p
            raise PcieError(f"{name}: {text(status).decode(errors='replace')}")

    def rate_b_s(self, passed: str) -> float:
        """What passes in a direction now. Raises PcieError."""
        units = ctypes.c_uint()
        way = ctypes.c_int(_OF_GPU[passed])
        self._call("nvmlDeviceGetPcieThroughput", self._gpu, way, ctypes.byref(units))
        return float(units.value) * _UNIT_B


class _Counter:
    """The bytes that a GPU's link has passed since this began; a thread samples it."""

    def __init__(self, pci: str) -> None:
        """Raises PcieError."""
        self._link = _Link(pci)
        self._totals_b = dict.fromkeys(_OF_GPU, 0.0)
        self._sample(0.0)
        self.lost = False
        threading.Thread(target=self._run, daemon=True).start()

    def total_b(self, passed: str) -> int:
        """Bytes in a direction, up to the last sample."""
        return int(self._totals_b[passed])

    def _run(self) -> None:
        then_s = time.monotonic()
        while not self.lost:
            time.sleep(_REST_S)
            now_s = time.monotonic()
            try:
                self._sample(now_s - then_s)
            except PcieError:
                self.lost = True
            then_s = now_s

    def _sample(self, over_s: float) -> None:
        for passed in _OF_GPU:
            self._totals_b[passed] += over_s * self._link.rate_b_s(passed)


@cache
def _counter(pci: str) -> _Counter | None:
    try:
        return _Counter(pci)
    except PcieError:
        return None


def total_b(device: str, passed: Literal["received", "sent"]) -> int | None:
    """What a GPU has sent to its host (`received`) and got from it, bytes; None if unknown."""
    counter = _counter(device.removeprefix(PREFIX))
    return None if counter is None or counter.lost else counter.total_b(passed)


def why_not(pci: str) -> str | None:
    """Why the library says nothing of a GPU's link, in one line; None if it does."""
    try:
        _Link(pci).rate_b_s("received")
    except PcieError as error:
        return str(error)
    return None
