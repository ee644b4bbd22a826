"""What whoever reads an application's output returns and raises: the figure of merit."""

from __future__ import annotations

from dataclasses import dataclass, field

from analysis.sample import Better


@dataclass(frozen=True)
class Fom:
    """What a run reports of itself, in SI units."""

    value: float
    #: Whatever else it reports, SI units in the key names.
    extra: dict[str, float] = field(default_factory=dict)
    #: Unit and better direction where they are not those that the table of workloads names.
    unit: str | None = None
    better: Better | None = None


class FomError(Exception):
    """The output has no figure of merit, or its own checks failed. One line for people."""


def require_ranks(fom: Fom, asked: int | None) -> Fom:
    """`fom`, or FomError where its program reports another number of ranks than was asked for.

    A launcher of another MPI than the program's starts so many copies of it, one rank each, and
    each copy ends with the right answer.
    """
    found = fom.extra.get("ranks")
    if None not in (asked, found) and found != asked:
        raise FomError(
            f"the application ran as {found:g} ranks, not {asked}: launcher and application speak"
            " another MPI (for srun: SLURM_MPI_TYPE)"
        )
    return fom
