"""A run is one execution of a campaign on a machine. Its folder contains:

run.json                 this header
samples/CASE.jsonl       one sample per line (`records.sample.Sample`), in a chain
counters/CASE.jsonl      counts of tools in each run's ranks, and of nodes
provenance/SHA256.json   how runs were made; samples refer to these files
logs/CASE/BLOCK/         output of the application, the writers and ReFrame
call.json                the command that made the run (`records.calls`)
failures.json            why cases could not be measured (`records.failed_cases`)
lock                     held by the `nimc run` that measures
report/                  report.html and its data; can be rebuilt at any time
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, field_validator

from records.errors import InputError, shown_value
from records.files import replace_text
from records.json_limits import read_json, validated
from records.order import run_seed
from records.run_folder import reason_to_distrust_run
from records.sample import OLDER_SCHEMAS

# Rules for facts in `run.json` and provenance from which results are computed or files are named.
# All other facts are only shown.


def plain_name(name: str) -> str:
    """Return the name of a machine, a campaign, a run or a case, if it can be the name of a file.

    Raises ValueError for a name that could lead to another folder, or cannot be printed.
    """
    if name in ("", ".", "..") or "/" in name or any(map(_is_control, name)):
        raise ValueError(
            f"{shown_value(name)} found; allowed: plain names without '/' and control characters"
        )
    return name


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


PlainName = Annotated[str, AfterValidator(plain_name)]
_NumaNode = Annotated[int, Field(ge=0, lt=1_000_000)]


class HostFacts(BaseModel):
    """Facts of a host (`records.machine.host`) that results are computed from."""

    sockets: Annotated[int, Field(ge=1)] = 1
    numa_nodes: list[dict[str, Any]] = []


class NicFacts(BaseModel):
    """The network interface in a site file."""

    link_rate_b_s: Annotated[float, Field(gt=0, lt=1e30)] | None = None


class SiteFacts(BaseModel):
    """Facts of a site file (`records.machine.site`) that results are computed from."""

    nic: NicFacts | None = None

    #: Case -> figure of merit without writers, in SI units.
    references: dict[str, Annotated[float, Field(gt=1e-30, lt=1e30)]] | None = None
    reference_tolerance: Annotated[float, Field(ge=0, lt=1e30)] | None = None


class HeaderFacts(BaseModel):
    """The part of `RunHeader.facts` that results are computed from."""

    host: HostFacts = HostFacts()
    site: SiteFacts = SiteFacts()

    @field_validator("site", mode="before")
    @classmethod
    def _none_is_unknown(cls, site: Any) -> Any:
        return {} if site is None else site


class RequestedEntry(BaseModel):
    """An entry of a campaign's `workloads` (`records.campaign.Entry`), as stored in `resolved`."""

    check: str
    case: str | None = None
    set: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """Name of its cases; levels may follow it, as in `lammps@nodes=4`."""
        return self.case or self.check.rpartition(":")[2]


class _RequestedCampaign(BaseModel):
    workloads: list[RequestedEntry] = []


class _Resolved(BaseModel):
    """The part of `RunHeader.resolved` that is read."""

    campaign: _RequestedCampaign = _RequestedCampaign()


class NumaFacts(BaseModel):
    """NUMA nodes of a machine, and the node that each level of the campaign `numa` means."""

    numa_nodes: Annotated[int, Field(ge=1, lt=1_000_000)]
    nic_node: _NumaNode | None
    places: dict[str, _NumaNode | None]


#: Version of the format of `run.json`. No other version is read. Samples have a version of their
#: own (`records.sample`).
SCHEMA_VERSION = 5

#: Default of a campaign's smallest relative effect that matters.
MARGIN = 0.02
#: Default of a campaign's minimum number of pairs of a case.
PAIRS_FLOOR = 8
#: Default of a campaign's maximum number of pairs of a case. With 1 % noise, 24 pairs show 'no
#: effect' for each of 128 cases.
PAIRS_CAP = 24

UnixTime = Annotated[float, Field(ge=0, lt=1e11)]
Share = Annotated[float, Field(gt=0, le=1)]
PairCount = Annotated[int, Field(ge=1, le=1_000_000)]


@dataclass(frozen=True)
class Requirements:
    """What the campaign requires of every run; stored runs are checked against it."""

    #: Case -> names of the treatments of each of its pairs, in the plan's order.
    cases: dict[PlainName, Annotated[list[str], Field(min_length=1)]]
    #: Least share of its uncontended rate that every writer had to reach.
    min_share: Share
    #: Maximum number of times that a rejected run is repeated.
    retries: Annotated[int, Field(ge=0, le=100)]


@dataclass(frozen=True)
class Reproduced:
    """The run whose plan and order another run repeats."""

    #: `run` and `digest` in the header of the repeated run.
    run: PlainName
    digest: str


@dataclass(frozen=True, kw_only=True)
class RunHeader:
    """The campaign, the machine, and facts about both."""

    #: Original name of the run's folder: CAMPAIGN-MACHINE-STARTED.
    run: PlainName
    #: Names of campaign and machine.
    campaign: PlainName
    machine: PlainName
    #: Start and end of the run, Unix time. The end is None while the run is not complete. It is
    #: earlier than the start if the clock was set back between two sessions.
    started_s: UnixTime
    finished_s: UnixTime | None
    #: SHA-256 of the resolved campaign, the machine file, `--nodelist` and, on a shared host, the
    #: host's name. A run is resumed only if the digest is the same.
    digest: str
    #: Text of the campaign file; the files of this project have up to 5,000 characters.
    campaign_text: Annotated[str, Field(max_length=1 << 20)]
    #: Minimum and maximum number of pairs of a case.
    pairs_floor: PairCount
    pairs_cap: PairCount
    #: Relative half-width that the interval should reach; None: not required.
    precision: Annotated[float, Field(gt=0, lt=1)] | None
    #: The requirements of the campaign.
    asked: Requirements
    #: `host`: facts of the host of `nimc run`, as detected; `site`: the machine file with defaults,
    #: in SI units.
    facts: dict[str, Any] = field(default_factory=dict)
    #: Name -> version of the software that made the run.
    versions: dict[str, str] = field(default_factory=dict)
    #: Commit of this project, with `+` if files were changed; None outside a checkout.
    commit: str | None = None
    #: 'No effect' means that the typical run changes by less than this share.
    margin: Annotated[float, Field(gt=0, lt=1)] = MARGIN
    #: Run that this one repeats with the same seed (`nimc reproduce`).
    reproduces: Reproduced | None = None
    #: Seed of the order of runs (`drawn_seed`); None: the order is not checked.
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    #: The document of which `digest` is the SHA-256 (`digest_of`): `campaign` and `machine` as
    #: resolved, without defaults, `nodelist`, `checks` (class of a third-party check -> SHA-256 of
    #: its file), and on a shared host its `hostname`.
    resolved: dict[str, Any] | None = None
    #: Head of the chain (`records.chain`) when the run was complete; None before.
    head: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    #: Maximum number of pairs that `nimc run --pairs` has set later; None: it is `pairs_cap`.
    pairs_raised: PairCount | None = None
    #: Version of the format of `run.json`.
    schema: int = SCHEMA_VERSION

    @property
    def max_pairs(self) -> int:
        """Number of pairs at which a case ends, decided or not."""
        return self.pairs_raised or self.pairs_cap

    @property
    def drawn_seed(self) -> int:
        """The seed drawn from the run, or from the run that it reproduces."""
        original = self.reproduces or self
        return run_seed(original.digest, original.run)

    def as_dict(self) -> dict[str, Any]:
        """The header as written to `run.json`."""
        return asdict(self)


def load_header(run: Path) -> RunHeader:
    """The header of the run in folder `run`. Raises InputError if missing or invalid.

    A header of another schema is invalid.
    """
    path = run / "run.json"
    try:
        record = read_json(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        inner_runs = sorted(path.parent for path in run.glob("*/run.json"))
        hint = f"; it holds runs, such as {inner_runs[-1]}" if inner_runs else ""
        raise InputError(f"{run}: not a run folder (no run.json){hint}") from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    schema = record.get("schema") if isinstance(record, dict) else SCHEMA_VERSION
    if schema != SCHEMA_VERSION:
        fault = f"schema: {str(schema)[:20]} found"
        raise InputError(f"{path}: {fault}; allowed: {SCHEMA_VERSION}; {OLDER_SCHEMAS}")
    header = validated(RunHeader, record, path)
    validated(HeaderFacts, header.facts, path, "facts")
    if header.resolved is not None:
        validated(_Resolved, header.resolved, path, "resolved")
    if header.pairs_cap < header.pairs_floor:
        allowed = f"from pairs_floor, {header.pairs_floor}"
        raise InputError(f"{path}: pairs_cap: {header.pairs_cap} found; allowed: {allowed}")
    return header


def own_runs(results: Path) -> Iterator[tuple[Path, RunHeader]]:
    """All runs of this user that this version can read, with their headers."""
    for path in results.glob("*"):
        with suppress(InputError, OSError):  # of another version, or not a run
            if not reason_to_distrust_run(path):
                yield path, load_header(path)


def digest_of(resolved: Mapping[str, Any]) -> str:
    """SHA-256 of a document, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(resolved, sort_keys=True).encode()).hexdigest()


def facts_of(header: RunHeader) -> HeaderFacts:
    """The facts of a header from which results are computed; `load_header` has validated them."""
    return HeaderFacts.model_validate(header.facts)


def entries_of(header: RunHeader) -> list[RequestedEntry] | None:
    """The entries of a header's campaign; None if it has none. `load_header` has validated them."""
    if header.resolved is None:
        return None
    return _Resolved.model_validate(header.resolved).campaign.workloads


def save_header(run: Path, header: RunHeader) -> None:
    """Write `run.json` atomically: readers see the old or the new file, never a partial one."""
    replace_text(run / "run.json", json.dumps(header.as_dict(), indent=2) + "\n")
