"""What proves a run's samples: their chain, and the head that ends the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from nimc.base.errors import InputError
from nimc.base.units import plural
from nimc.records.chain import RunChain, walk_run
from nimc.records.run import RunHeader

#: Since this schema, of runs and of samples, samples are in a chain.
CHAINED = 4
UNPROVEN = "written before samples were in a chain: that none was changed is unproven"


@dataclass(frozen=True)
class Proof:
    """What the chain of a run shows."""

    #: Its value after all samples; None of a run that has none.
    head: str | None
    #: A line for each file that was changed, and for a head that is not the run's.
    faults: list[str]


def proof_of(run: Path, header: RunHeader, samples: pl.DataFrame) -> Proof:
    """Walk along the chain of the run in folder `run`, whose samples were read from it.

    Raises InputError for a header that cannot be read.
    """
    if header.schema < CHAINED and (samples["schema"] < CHAINED).all():
        return Proof(None, [])
    try:
        found = walk_run(run)
    except ValueError as error:  # a number of more digits than Python reads
        raise InputError(f"{run / 'run.json'}: {error}") from error
    return Proof(found.head, list(_faults(run, header, found)))


def _faults(run: Path, header: RunHeader, found: RunChain) -> Iterator[str]:
    for path, walked in found.cases.items():
        if walked.broken:
            first, *others = walked.broken
            before = "the line before it" if first > 1 else "run.json"
            more = f", and so on in {plural(len(others), 'later line')}" if others else ""
            yield f"{path}:{first}: chain: this line was changed, or {before} was{more}"
    ended = header.finished_s is not None or header.head is not None
    if ended and header.head != found.head:
        yield f"{run / 'run.json'}: head: {header.head} found; allowed: {found.head}, the chain's"
