"""A trace: the bytes that arrived at each node in each second, and windows drawn from it."""

from __future__ import annotations

import hashlib
import io
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from records.errors import InputError
from records.files import replace
from records.json_limits import parsed, read_text, validated
from records.plan import Window
from records.treatment import Replay

SCHEMA = 2
#: Largest trace, and largest file that one is made from, bytes.
MOST_B = 256 << 20
#: Key of the header in the Parquet file's metadata.
_KEY = "records.traffic"
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
    #: `Prometheus` or `CSV`; and its counters, `bytes` if it has bytes of seconds.
    format: str
    metrics: list[str]


@dataclass(frozen=True)
class Break:
    """Where a counter does not simply grow: the seconds are missing in the trace."""

    #: `gap`: not sampled, or stopped at its largest value; `reset`: it fell, as when a node boots.
    kind: Literal["gap", "reset"]
    node: str
    #: Device and port; empty if the file names none.
    device: str
    #: Between which samples, Unix time in seconds.
    start_s: float
    end_s: float


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
    is_ours = isinstance(record, dict) and record.get("schema") == SCHEMA
    valid = validated(TraceHeader, record, path, _KEY) if is_ours else None
    wrong = (
        pl.any_horizontal(pl.all().is_null()) | ~pl.col("bytes").is_finite() | (pl.col("bytes") < 0)
    )
    if valid is None or seconds.is_empty() or seconds.select(wrong.any()).item():
        raise InputError(f"{path}: a trace of another version, or damaged; import it again")
    return Trace(valid, seconds)


# Windows of a trace, drawn at random: what the writers of each pair follow.


#: Length of a window in a run, seconds; a longer run begins it again. In a short or broken trace it
#: is one of these parts of that, so that there are several.
LONGEST_S, PARTS = 120, (1, 2, 4, 8)


def draw_windows(trace: Trace, replay: Replay, targets: int, names: Sequence[str]) -> list[Window]:
    """A window for each name, which is all that it depends on, of the named or busiest nodes.

    Raises InputError if the trace lacks nodes, or has no part that is known of all of them.
    """
    nodes = _nodes(trace, replay, targets)
    seconds = trace.seconds.filter(pl.col("node").is_in(nodes))
    first_s = int(seconds["time_s"].sort()[0])
    at = seconds["time_s"].to_numpy() - first_s
    rates = np.full((int(np.max(at)) + 1, targets), np.nan)
    rates[at, [nodes.index(node) for node in seconds["node"]]] = seconds["bytes"].to_numpy()
    complete = np.concatenate(([0], np.cumsum(~np.isnan(rates).any(axis=1))))
    lengths_s = [LONGEST_S * replay.speed // part for part in PARTS]
    begins = {
        length: np.flatnonzero(complete[length:] - complete[:-length] == length)
        for length in lengths_s
    }
    # Enough begins that windows need not overlap, if there are.
    fit = [length for length in lengths_s if begins[length].size > length]
    length_s = fit[0] if fit else lengths_s[-1]
    starts = begins[length_s]
    if not starts.size:
        raise InputError(
            f"traffic: no {length_s} s without a gap in the trace; allowed: at least one such time"
            f" of {', '.join(nodes)}"
        )
    windows = []
    for name in names:
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
        start = int(random.Random(seed).choice(starts))
        part = rates[start : start + length_s].reshape(-1, replay.speed, targets).mean(axis=1)
        windows.append(Window(first_s + start, nodes, (replay.share * part.T).tolist()))
    return windows


def _nodes(trace: Trace, replay: Replay, targets: int) -> list[str]:
    """The trace's node of each target: those asked for by name, else those with the most bytes."""
    of_node = trace.seconds.group_by("node").agg(pl.col("bytes").sum())
    there = of_node.sort(["bytes", "node"], descending=[True, False])["node"].to_list()
    if unknown := [node for node in replay.nodes if node not in there]:
        raise InputError(f"traffic.nodes: {unknown[0]} found; allowed: {', '.join(there)[:200]}")
    nodes = list(dict.fromkeys(replay.nodes)) or there
    if len(nodes) < targets:
        where = "traffic.nodes" if replay.nodes else "traffic"
        of = "named" if replay.nodes else "in the trace"
        raise InputError(f"{where}: {len(nodes)} nodes {of}; allowed: {targets} or more")
    return nodes[:targets]
