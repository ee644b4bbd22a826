"""A trace: the bytes that arrived at each node in each second, and where that is known from."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import polars as pl
from pydantic import TypeAdapter

from nimc.base.errors import InputError
from nimc.base.files import replace
from nimc.base.json_limits import parsed, read_text, validated

SCHEMA = 1
#: Largest trace, and largest file that one is made from, bytes.
MOST_B = 256 << 20
#: Key of the header in the Parquet file's metadata.
_KEY = "nimc.traffic"
COLUMNS: Mapping[str, type[pl.DataType]] = {
    "node": pl.String,
    "time_s": pl.Int64,
    "bytes": pl.Float64,
}


@dataclass(frozen=True)
class Source:
    """A file that a trace was made from."""

    #: Its name, without folders, and the SHA-256 of its content.
    name: str
    sha256: str
    #: `Prometheus`, `LDMS` or `CSV`; and its counters, `bytes` if it has bytes of seconds.
    format: str
    metrics: list[str]


@dataclass(frozen=True)
class Break:
    """Where a counter does not simply grow."""

    #: `gap`: not sampled; `reset`: it fell, as when a node boots; `wrap`: it began again at 0 after
    #: its largest value; `stop`: it had stopped at that, and was cleared later or never. Seconds
    #: of all but wraps are missing in the trace.
    kind: Literal["gap", "reset", "wrap", "stop"]
    node: str
    #: Device and port; empty if the file names none.
    device: str
    #: Between which samples, Unix time in seconds.
    start_s: float
    end_s: float
    #: Of a wrap, the counter's width.
    bits: int | None = None


@dataclass(frozen=True)
class TraceHeader:
    """What is known of a trace besides its seconds."""

    #: Number of the schema.
    schema: int
    sources: list[Source]
    #: Time between two samples of the slowest counter, median, seconds: what was counted in it is
    #: spread evenly over it, so that shorter bursts and pauses are not seen.
    resolution_s: float
    breaks: list[Break]


@dataclass(frozen=True)
class Trace:
    """A trace: columns `node`, `time_s` (a whole second, Unix time) and `bytes`."""

    header: TraceHeader
    seconds: pl.DataFrame

    def save(self, path: Path) -> None:
        """Write it as Parquet."""
        out = io.BytesIO()
        metadata = {_KEY: json.dumps(asdict(self.header))}
        self.seconds.write_parquet(out, compression="zstd", metadata=metadata)
        replace(path, out.getvalue())


def load(path: Path) -> Trace:
    """Read what `save` wrote. Raises InputError for anything else."""
    text = read_text(path, MOST_B)
    try:
        header = pl.read_parquet_metadata(io.BytesIO(text)).get(_KEY)
        seconds = pl.read_parquet(io.BytesIO(text))
    except (pl.exceptions.PolarsError, OSError, ValueError):
        header, seconds = None, pl.DataFrame()
    if header is None or dict(seconds.schema) != {n: kind() for n, kind in COLUMNS.items()}:
        raise InputError(f"{path}: not a trace; allowed: what 'nimc traffic import' writes")
    record = parsed(header.encode(), f"{path}: {_KEY}")
    found: TraceHeader = validated(TypeAdapter(TraceHeader), record, path, _KEY)
    wrong = (
        pl.any_horizontal(pl.all().is_null()) | ~pl.col("bytes").is_finite() | (pl.col("bytes") < 0)
    )
    if found.schema != SCHEMA or seconds.is_empty() or seconds.select(wrong.any()).item():
        raise InputError(f"{path}: a trace of another version, or damaged; import it again")
    return Trace(found, seconds)
