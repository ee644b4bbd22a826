"""What every parser of a figure of merit returns and raises."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

#: A number as C, C++ and Fortran print it.
FLOAT = r"([-+]?(?:[0-9.]+(?:[eEdD][-+]?\d+)?|nan|NaN|inf|Infinity))"


@dataclass(frozen=True)
class Fom:
    """What a run reports of itself, in the unit that the table of workloads names."""

    value: float
    #: Whatever else it reports, SI units in the key names.
    extra: dict[str, float] = field(default_factory=dict)


class FomError(Exception):
    """The output has no figure of merit, or its own checks failed. One line for people."""


def last_match(pattern: str, text: str, what: str) -> re.Match[str]:
    """The last match of `pattern`; raises FomError naming `what` where there is none."""
    matches = list(re.finditer(pattern, text, re.MULTILINE))
    if not matches:
        raise FomError(f"the output has no {what}")
    return matches[-1]


def last_number(label: str, text: str) -> float:
    """The number after the last `label` that starts a line, SI prefix and unit as printed."""
    found = last_match(rf"^\s*{re.escape(label)}\s*{FLOAT}", text, f"'{label}'")
    return float(found.group(1).replace("d", "e").replace("D", "e"))


def require_positive(what: str, value: float) -> float:
    """`value`, or FomError where it is not a positive number."""
    if not 0 < value < float("inf"):  # also refuses NaN
        raise FomError(f"{what} is {value:g}")
    return value


def require_close(what: str, value: float, known: float, relative: float) -> None:
    """Raise FomError unless `value` is within `relative` of `known`."""
    if not abs(value - known) <= relative * abs(known):  # also refuses NaN
        raise FomError(
            f"{what} is {value:g}; {known:g} within a share of {relative:g} was expected"
        )


def require_ranks(fom: Fom, asked: int | None) -> Fom:
    """`fom`, or FomError where its program tells of another number of ranks than was asked for.

    A launcher whose MPI the program does not speak starts it so many times, one rank each, and each
    copy ends with the right answer.
    """
    found = fom.extra.get("ranks")
    if None not in (asked, found) and found != asked:
        raise FomError(
            f"the application ran as {found:g} ranks, not {asked}: launcher and application speak"
            " another MPI (for srun: SLURM_MPI_TYPE)"
        )
    return fom
