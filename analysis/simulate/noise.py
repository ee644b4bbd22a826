"""Noise: variation of a step's time that is not caused by writes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from analysis.errors import InputError
from analysis.simulate.grid import Times

Kind = Literal["none", "exponential", "uniform", "normal"]


@dataclass(frozen=True)
class Noise:
    """Independent for every rank and step, as a share of the step's work.

    `exponential` adds a mean of `share`, `uniform` 0 to `share`; `normal` has mean 0 and standard
    deviation `share`, cut off where a step would be negative.
    """

    kind: Kind = "none"
    share: float = 0.0

    def fill(self, rng: np.random.Generator, step_s: float, work_s: Times) -> None:
        """Fill `work_s` with the work of one step of each rank, seconds."""
        if self.kind == "none":
            work_s.fill(step_s)
            return
        if self.kind == "exponential":
            rng.standard_exponential(out=work_s)
        elif self.kind == "uniform":
            rng.random(out=work_s)
        else:
            rng.standard_normal(out=work_s)
        work_s *= step_s * self.share
        work_s += step_s
        if self.kind == "normal":
            np.maximum(work_s, 0.0, out=work_s)

    def longest(self, draws: int) -> float:
        """A factor on the step that any of `draws` exceeds with a probability of at most 10^-6."""
        tail = math.log(1e6 * max(draws, 1))
        if self.kind == "exponential":
            return 1 + self.share * tail
        if self.kind == "normal":
            return 1 + self.share * math.sqrt(2 * tail)
        return 1 + self.share


NO_NOISE = Noise()


def parse(text: str, field: str) -> Noise:
    """`none`, or a distribution and its share such as `exponential:2%`. Raises InputError."""
    kind, _, share = text.partition(":")
    try:
        if text == "none":
            return Noise()
        if kind in ("exponential", "uniform", "normal") and share.endswith("%"):
            value = float(share[:-1]) / 100
            if 0 <= value < math.inf:
                return Noise(kind, value)  # type: ignore[arg-type]  # checked above
    except ValueError:
        pass
    raise InputError(
        f"{field}: {text!r} is not a noise; allowed: none, exponential:2%, uniform:5% or normal:1%"
    )
