"""A run: one execution of a campaign on a machine, and the layout of its folder.

run.json                 this header
samples/CASE.jsonl       one sample a line (`analysis.sample.Sample`), only ever appended to
provenance/SHA256.json   how runs were made; samples name these files
logs/CASE/BLOCK/         what the application, the writers and ReFrame printed
report/                  report.html and the data behind it; can be made again at any time
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class RunHeader:
    """What was asked of which machine."""

    #: Name of the run's folder: CAMPAIGN-MACHINE-STARTED.
    run: str
    campaign: str
    machine: str
    started_s: float
    #: Unix time; None while the run is not complete.
    finished_s: float | None
    #: SHA-256 of the resolved campaign and machine: a run resumes only under the same one.
    digest: str
    #: Text of the campaign file.
    campaign_text: str
    #: Pairs a case: at least, at most, and the relative half-width of the interval to reach.
    pairs_floor: int
    pairs_cap: int
    precision: float | None
    #: Facts of the machine, as detected (`reframe_tests.injection.host`) and as its site file says.
    facts: dict[str, Any] = field(default_factory=dict)
    #: Name -> version of the software that made the run.
    versions: dict[str, str] = field(default_factory=dict)
    #: Commit of this project, with `+` where the tree was changed; None outside a checkout.
    commit: str | None = None
    schema: int = 1

    def as_dict(self) -> dict[str, Any]:
        """The header as `run.json` holds it."""
        return asdict(self)
