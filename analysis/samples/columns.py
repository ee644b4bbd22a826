"""Reads the samples of runs into typed columns, one row per sample; writes tables.

A run may have a million samples, and more text than fits into memory. Therefore:

- Files are read in pieces of a few MiB: memory grows with the columns, not with the text.
- Pieces are parsed in parallel, by few threads, since each takes a multiple of its text.
- Nested records are read as text and decoded by their types, which is four times as fast.
- Columns of nulls, often a third, share one block of memory per type.
- Names with few values are categorical: each is stored once.

Columns are those of `records.sample.Sample`, typed by its hints, with these differences
(docs/data.md#samplesparquet has all columns):

- Nodes are joined with commas.
- `seed`, `factors` and `fom_extra` stay text: a seed may be wider than 64 bits, and the keys of the
  others differ between campaigns and workloads.
- The list of writers and their timetable become columns of sums, extremes and distinct names.
- What proves a sample is left out.
"""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import polars as pl
from pydantic_core import from_json

from records.arms import natural_key
from records.errors import InputError
from records.files import replace_bytes
from records.json_limits import refuse_deep, refuse_long
from records.sample import NAME, Sample
from records.sample_rules import check_samples

#: Size of the pieces of a file.
_PIECE_B = 8 << 20
#: Most pieces that are parsed at a time: each takes about seven times its text, so one per core
#: would need gigabytes on a large host, and polars has threads of its own.
_AT_ONCE = 4

_TEXT = pl.String()
_NAME = pl.Categorical()


def column_type(hint: Any, names: pl.DataType, whole: pl.DataType) -> pl.DataType:
    """Column type of a field; names with few values become `names`, integers `whole`."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        (inner,) = (part for part in parts if part is not NoneType)
        return column_type(inner, names, whole)
    if origin is Literal or (origin is Annotated and NAME in parts):
        return names
    if origin is list:
        return pl.List(column_type(parts[0], _TEXT, pl.Int64()))
    if is_dataclass(hint):
        return pl.Struct(_types(hint))
    return {int: whole, float: pl.Float64(), bool: pl.Boolean()}.get(hint, _TEXT)


def _types(record: Any) -> dict[str, pl.DataType]:
    """Field -> type of a record nested in a sample; mappings are left out."""
    hints = get_type_hints(record, include_extras=True)
    return {
        name: column_type(hint, _TEXT, pl.Int64())
        for name, hint in hints.items()
        if get_origin(hint) is not dict
    }


#: Columns that prove a sample, which only `nimc verify` reads.
_PROOFS = ("counters_sha256", "logs")
_COLUMNS: dict[str, pl.DataType] = {
    name: column_type(hint, _NAME, pl.Int32())
    for name, hint in get_type_hints(Sample, include_extras=True).items()
    if name not in _PROOFS
}
#: Lists and records: read as JSON text (`_AS_TEXT`) and decoded later, which is four times as fast.
#: But polars drops escapes from that text, so a piece with a backslash is parsed with these types
#: directly.
_NESTED = {name: type_ for name, type_ in _COLUMNS.items() if type_.is_nested()}
_AS_TEXT = {
    name: _TEXT if name in _NESTED or type_ == _NAME else type_ for name, type_ in _COLUMNS.items()
}
_NAMES = [name for name, type_ in _COLUMNS.items() if type_ == _NAME]
#: Figures that every writer has, each from 0 to `MAX_FIGURE`.
_FIGURES = ("message_b", "rate_alone_b_s", "rate_b_s", "rate_min_b_s", "bytes_b")
#: Columns with the distinct names in a field of the writers.
_WRITER_NAMES = {
    "injector": "injector",
    "transport": "transport",
    "writer_origins": "origin",
    "writer_targets": "target",
    "proof": "proof",
}
#: Shares of a timetable.
_SHARES = ("missing_share", "excess_share", "allowed_share")
#: No figure in SI units is larger than this or, unless it is 0, smaller than its inverse.
MAX_FIGURE = 1e30


@dataclass(frozen=True)
class Samples:
    """The samples of one run."""

    #: One row per sample, in the order of the files.
    frame: pl.DataFrame
    #: Files whose last line was cut off (a crash during the write); that line is ignored.
    torn: list[str]
    #: Each file and the number of its rows.
    files: dict[Path, int]


@dataclass(frozen=True)
class NestedSamples:
    """The nested parts of the samples of one run, which few ask for."""

    #: As in `Samples`.
    frame: pl.DataFrame
    #: One row per writer: `row`, the index of its sample in `frame`, and the fields of
    #: `WriterRecord` that are no mappings.
    writers: pl.DataFrame
    #: One row per target node of a sample: `row`, and the fields of `NodeConditions`.
    conditions: pl.DataFrame


@dataclass(frozen=True)
class _Piece:
    path: Path
    first_line: int
    #: Index of its first row among those of all files.
    first_row: int
    lines: int
    text: bytes


def read_run(run: Path) -> Samples:
    """The samples of the run in folder `run`, cases by name; an empty frame if there are none.

    Raises InputError, naming file and line, for a line that is not a sample, a sample of
    another schema or a duplicate key.
    """
    return read_samples(_files(run))


def read_nested(run: Path) -> NestedSamples:
    """The samples of a run, their writers and their conditions, as `read_run`."""
    return NestedSamples(*map(_whole, zip(*_parts(_files(run), [], {}), strict=True)))


def read_samples(paths: Iterable[Path], piece_b: int = _PIECE_B) -> Samples:
    """The samples in the files `paths` (JSON lines), as `read_run`.

    `piece_b`: how much of a file is parsed at once.
    """
    torn: list[str] = []
    files: dict[Path, int] = {}
    frame = _whole([frame for frame, *_ in _parts(paths, torn, files, piece_b)])
    twice = frame.filter(pl.col("key").is_duplicated())
    if twice.height:
        key = twice["key"][0]
        raise InputError(f"duplicate sample key '{key}', {(twice['key'] == key).sum()} times")
    return Samples(frame, torn, files)


def _files(run: Path) -> list[Path]:
    return sorted((run / "samples").glob("*.jsonl"), key=lambda path: natural_key(path.stem))


def _parts(
    paths: Iterable[Path], torn: list[str], files: dict[Path, int], piece_b: int = _PIECE_B
) -> Iterator[tuple[pl.DataFrame, ...]]:
    """Samples, writers and conditions of each piece; first those of an empty one, for the columns.

    Adds what `Samples` says of the files to `torn` and `files`.
    """
    yield _columns(_Piece(Path(), 1, 0, 0, b""))
    workers = min(os.cpu_count() or 1, _AT_ONCE)
    parsed: deque[Future[tuple[pl.DataFrame, ...]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for piece in _pieces(paths, torn, piece_b):
            files[piece.path] = files.get(piece.path, 0) + piece.lines
            parsed.append(pool.submit(_columns, piece))
            # One more than are parsed at a time is read, so that no core waits for a file.
            if len(parsed) > workers:
                yield parsed.popleft().result()
        while parsed:
            yield parsed.popleft().result()


def _whole(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The rows of all `parts`. Columns are taken out of the parts one by one, which empties them.

    Each is copied into one block of memory. In the memory of the pieces, what was read for them
    lies between the columns, and would stay with them: as much again.
    """
    columns = (pl.concat([part.drop_in_place(name) for part in parts]) for name in parts[0].columns)
    whole = (
        column if column.null_count() == len(column) else column.rechunk() for column in columns
    )
    return _with_shared_nulls(pl.DataFrame(whole))


def _with_shared_nulls(frame: pl.DataFrame) -> pl.DataFrame:
    """The same frame; its columns of nulls are views of memory that is made once per type.

    Often a third of a run's columns: what only some devices count, bindings, timetables.
    """
    size = 1 << frame.height.bit_length()
    return frame.with_columns(
        _nulls(type_, size).head(frame.height).alias(name)
        for name, type_ in frame.schema.items()
        if frame[name].null_count() == frame.height
    )


@cache
def _nulls(type_: pl.DataType, size: int) -> pl.Series:
    return pl.Series([None], dtype=type_).new_from_index(0, size)


def _pieces(paths: Iterable[Path], torn: list[str], piece_b: int) -> Iterator[_Piece]:
    """Whole lines of all files in pieces; files whose last line is cut off are added to `torn`."""
    row = 0
    for path in paths:
        line, rest = 1, b""
        with path.open("rb") as file:
            while text := file.read(piece_b):
                end = text.rfind(b"\n") + 1
                refuse_long(rest + text[: text.find(b"\n") + 1 or None], f"{path}:{line}")
                complete = rest + text[:end] if end else b""
                rest = text[end:] if end else rest + text
                if complete:
                    lines = complete.count(b"\n")
                    yield _Piece(path, line, row, lines, complete)
                    line, row = line + lines, row + lines
        if rest and _is_object(rest):
            yield _Piece(path, line, row, 1, rest + b"\n")
            row += 1
        elif rest:
            torn.append(str(path))


def _is_object(text: bytes) -> bool:
    try:
        return isinstance(from_json(text), dict)
    except ValueError:
        return False


def _columns(piece: _Piece) -> tuple[pl.DataFrame, ...]:
    """The rows of the piece's lines, those of their writers, and those of their conditions."""
    refuse_deep(piece.text, piece.path, piece.first_line)
    check_samples(piece.text, piece.path, piece.first_line)
    schema = _AS_TEXT | _NESTED if b"\\" in piece.text else _AS_TEXT
    try:
        raw = pl.read_ndjson(io.BytesIO(piece.text), schema=schema)
        frame, *nested = _flatten(raw, piece.first_row)
    except pl.exceptions.PolarsError as error:
        first, *_ = str(error).splitlines()
        raise InputError(f"{piece.path}:{piece.first_line}: {first}") from error
    writers, conditions = map(_with_shared_nulls, nested)
    return _with_shared_nulls(frame), writers, conditions


def _flatten(raw: pl.DataFrame, first_row: int) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Rows of samples, with columns for what is nested in them; of their writers; of conditions."""
    renewed = pl.col("outcome").replace("kept", "accepted")  # the word of schema 6
    columns = raw.with_columns(
        renewed,
        *(
            pl.col(name).str.json_decode(type_)
            for name, type_ in _NESTED.items()
            if raw.schema[name] == _TEXT
        ),
    ).with_row_index("row", first_row)
    writers, nodes = (_exploded(columns, name) for name in ("writers", "conditions"))
    # Each figure is that of the node where it is worst.
    worst_conditions = nodes.group_by("row", maintain_order=True).agg(
        pl.col("foreign_cpus", "steal_share").max(), pl.col("frequency_hz").min()
    )
    timetable = pl.col("timetable").struct
    flat = columns.drop("writers", "conditions").with_columns(
        pl.col("factors").fill_null("{}").cast(_NAME),
        pl.col(name for name in _NAMES if name != "factors").cast(_NAME),
        pl.col("nodes", "origin_nodes").list.join(",").cast(_NAME),
        pl.col("notes").fill_null([]).cast(pl.List(_NAME)),
        timetable=timetable.field("writers"),
        **{name: timetable.field(name) for name in _SHARES},
    )
    for part in (_summed_writers(writers), worst_conditions):
        flat = flat.join(part, on="row", how="left", maintain_order="left")
    flat = flat.drop("row").with_columns(
        pl.col(*_WRITER_NAMES).fill_null(""),
        pl.col("writers").fill_null(0),
        pl.col("writer_figures").fill_null(value=True),
        pl.col("same_host").fill_null(value=False),
    )
    return flat, writers, nodes


def _exploded(columns: pl.DataFrame, name: str) -> pl.DataFrame:
    """The records in the lists of a column, with the sample's `row`."""
    lists = columns.select("row", name)
    return lists.explode(name, empty_as_null=False, keep_nulls=False).unnest(name)


def _summed_writers(writers: pl.DataFrame) -> pl.DataFrame:
    """One row per sample that has writers."""
    col = pl.col
    one_each = writers["row"].n_unique() == writers.height

    def names(name: str) -> pl.Expr:
        names_of = col(name).drop_nulls()
        return names_of.first() if one_each else names_of.unique(maintain_order=True).str.join("+")

    limit = pl.min_horizontal("rate_alone_b_s", "asked_b_s")
    share = (col("rate_min_b_s") / limit).fill_nan(0.0)
    measured = writers.with_columns(
        share=pl.when(col("message_b") > 0).then(share),
        plausible=pl.all_horizontal(col(name).is_between(0, MAX_FIGURE) for name in _FIGURES)
        & col("rate_before_b_s").fill_null(0.0).is_between(0, MAX_FIGURE),
        counted=col("counted_b") / col("counted_s"),
        within=col("origin") == col("target"),
    )
    summed = measured.group_by("row", maintain_order=True).agg(
        writers=pl.len(),
        **{column: names(name) for column, name in _WRITER_NAMES.items()},
        message_b=col("message_b").max(),
        asked_b_s=pl.when(col("asked_b_s").is_not_null().all()).then(col("asked_b_s").sum()),
        writer_rate_alone_b_s=col("rate_alone_b_s").sum(),
        writer_rate_b_s=col("rate_b_s").sum(),
        writer_rate_before_b_s=pl.when(col("rate_before_b_s").is_not_null().all()).then(
            col("rate_before_b_s").sum()
        ),
        writer_share=col("share").min(),
        writer_message_b=col("message_b").min(),
        footprint_b=col("footprint_b").min(),
        queue_pairs=col("queue_pairs").min(),
        writer_bytes_b=col("bytes_b").min(),
        writer_figures=col("plausible").all(),
        counted_alone_b_s=col("counted_alone_b_s").max(),
        counted_b_s=col("counted").max(),
        comm_node=col("buffer_node").max(),
        direction=col("direction").drop_nulls().first(),
        own_binding=col("own_binding").first(),
        target_on_node_share=col("target_on_node_share").min(),
        target_pinned_b=col("target_pinned_b").min(),
        same_host=col("within").any(),
        observed_share=col("observed_share").min(),
        unobserved_s=col("unobserved_s").max(),
        cpu_share=col("cpu_share").min(),
    )
    return summed.with_columns(col(*_WRITER_NAMES, "direction", "own_binding").cast(_NAME))


# Tables as files.


def write_table(path: Path, frame: pl.DataFrame) -> None:
    """Write a table as Parquet; see `records.files`."""
    replace_bytes(path, parquet(frame))


def parquet(frame: pl.DataFrame) -> bytes:
    """The table as Parquet."""
    out = io.BytesIO()
    frame.write_parquet(out, compression="zstd")
    return out.getvalue()
