"""All checks of a stored run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from analysis.columns import Samples, read_run
from analysis.errors import InputError
from analysis.integrity import campaign, fields, order, provenance
from analysis.integrity.faults import Faults, Rows
from analysis.integrity.provenance import Provenance, read_provenance
from analysis.numbers import count
from analysis.order import run_seed
from analysis.run import RunHeader, load_header


@dataclass(frozen=True)
class Integrity:
    """What the checks of one run found."""

    run: Path
    #: Number of faults, and the first ones, one line each.
    count: int
    faults: list[str]
    #: What could not be checked, and what is odd without being a fault.
    notes: list[str] = field(default_factory=list)

    @property
    def headline(self) -> str:
        """How many faults there are, and what follows."""
        return f"{self.run}: {count(self.count, 'integrity fault')}: not to be trusted"

    def lines(self) -> list[str]:
        """The headline and the faults; nothing without faults."""
        return [self.headline, *self.faults] if self.count else []


def check_run(run: Path, header: RunHeader, samples: Samples, records: Provenance) -> Integrity:
    """Check what `run` holds, as read by `load_header`, `read_run` and `read_provenance`."""
    faults, notes = Faults(), []
    if run.resolve().name != header.run:
        notes.append(f"the folder {run.resolve().name} holds the run {header.run}")
    if header.seed is None:
        notes.append("run.json has no seed: the order of the runs is not compared with it")
    elif header.seed != run_seed(header.digest, header.run):
        faults.add(f"{run / 'run.json'}: field 'seed' does not follow from 'digest' and 'run'")
    if header.asked is None and header.schema > 1:
        faults.add(f"{run / 'run.json'}: field 'asked' is null, must be what was asked of the run")
    elif header.asked is None:
        notes.append(
            "recorded by an older version: cases, treatments and repetitions are not compared with"
            " what the campaign asked"
        )
    of_case = campaign.treatments(samples.frame, header)
    frame = campaign.known(samples.frame, of_case)
    rows = Rows(frame, samples.files)
    rows.judge([*fields.rules(frame, header), *order.rules(header)], faults)
    order.judge_drawn(rows, header, of_case, faults)
    order.overlapping_blocks(rows, faults)
    campaign.judge(run, rows, header, of_case, faults)
    provenance.judge(run, rows, records, faults)
    return Integrity(run, faults.count, faults.listed(), notes)


def require_sound(run: Path) -> None:
    """Raises InputError with a line for each fault of a stored run, if there are any."""
    refuse_faults(check_run(run, load_header(run), read_run(run), read_provenance(run)))


def refuse_faults(found: Integrity) -> None:
    """Raises InputError with a line for each fault, if there are any."""
    if found.count:
        raise InputError(*found.lines())
