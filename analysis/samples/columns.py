"""Reads the samples of runs into typed columns, one row per sample; writes tables.

A run may have a million samples, and more text than fits into memory. Therefore:

- Files are read in pieces of a few MiB, so memory grows with the columns and not with the text.
- Pieces are parsed in parallel. Only a few threads do this, since each piece needs several times
  its size in memory.
- Nested records are first read as text and then decoded. This is four times as fast as reading them
  directly.
- Columns that hold only nulls, often a third of all columns, share one block of memory per type.
- Text columns with few distinct values are categorical, so each value is stored once.

There is one column for each field of `records.sample.Sample`, typed by the field's type hint, with
these differences (docs/data.md#samplesparquet has all columns):

- A list of nodes becomes one text, with commas between the names.
- `seed`, `factors` and `fom_extra` stay text. A seed may be wider than 64 bits. The keys of
  `factors` differ between campaigns, and the keys of `fom_extra` between workloads.
- The list of writers and their timetable become columns of sums, extremes and distinct names.
- Fields that only `nimc verify` reads (`_VERIFICATION_FIELDS`) are left out.
"""

from __future__ import annotations

import io
import json
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

from records.arms import natural_key
from records.errors import InputError
from records.files import replace_bytes
from records.json_limits import refuse_deep, refuse_long
from records.sample import FEW_VALUES, Sample
from records.sample_rules import check_samples

#: Size of the pieces in which a file is read.
_PIECE_B = 8 << 20
#: Maximum number of pieces that are parsed at a time. Each takes about seven times the memory of
#: its text, so one piece per core would need gigabytes on a large host. Polars also parses each
#: piece with threads of its own.
_MAX_PARALLEL_PIECES = 4

_TEXT_TYPE = pl.String()
_NAME_TYPE = pl.Categorical()


def column_type(hint: Any, name_type: pl.DataType, integer_type: pl.DataType) -> pl.DataType:
    """Column type of a field, from its type hint.

    `name_type` is used for text with few distinct values, `integer_type` for integers.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        (inner,) = (argument for argument in arguments if argument is not NoneType)
        return column_type(inner, name_type, integer_type)
    if origin is Literal or (origin is Annotated and FEW_VALUES in arguments):
        return name_type
    if origin is list:
        return pl.List(column_type(arguments[0], _TEXT_TYPE, pl.Int64()))
    if is_dataclass(hint):
        return pl.Struct(_field_types(hint))
    return {int: integer_type, float: pl.Float64(), bool: pl.Boolean()}.get(hint, _TEXT_TYPE)


def _field_types(record: Any) -> dict[str, pl.DataType]:
    """Field -> column type, for a record nested in a sample. Mappings are left out."""
    hints = get_type_hints(record, include_extras=True)
    return {
        name: column_type(hint, _TEXT_TYPE, pl.Int64())
        for name, hint in hints.items()
        if get_origin(hint) is not dict
    }


#: Fields that only `nimc verify` reads: hashes of the files that belong to a sample.
_VERIFICATION_FIELDS = ("counters_sha256", "logs")
_COLUMN_TYPES: dict[str, pl.DataType] = {
    name: column_type(hint, _NAME_TYPE, pl.Int32())
    for name, hint in get_type_hints(Sample, include_extras=True).items()
    if name not in _VERIFICATION_FIELDS
}
#: Types of the columns of lists and records. These columns are first read as JSON text
#: (`_READ_TYPES`) and then decoded, which is four times as fast as reading them directly. However,
#: polars drops escapes from this text, so a piece with a backslash is read with these types
#: directly.
_NESTED_TYPES = {name: type_ for name, type_ in _COLUMN_TYPES.items() if type_.is_nested()}
_READ_TYPES = {
    name: _TEXT_TYPE if name in _NESTED_TYPES or type_ == _NAME_TYPE else type_
    for name, type_ in _COLUMN_TYPES.items()
}
_NAME_COLUMNS = [name for name, type_ in _COLUMN_TYPES.items() if type_ == _NAME_TYPE]
#: Columns of mappings, which stay JSON text.
_MAPPINGS = ("factors", "fom_extra")
#: Fields of a writer's record with figures. Each must be from 0 to `MAX_FIGURE`, and none is null.
_WRITER_FIGURES = ("message_b", "rate_alone_b_s", "rate_b_s", "rate_min_b_s", "bytes_b")
#: Column -> field of the writers' records. The column holds the distinct values of this field.
_WRITER_NAMES = {
    "injector": "injector",
    "transport": "transport",
    "writer_origins": "origin",
    "writer_targets": "target",
    "proof": "proof",
}
#: Fields of a timetable that become columns.
_TIMETABLE_SHARES = ("missing_share", "excess_share", "allowed_share")
#: Largest valid figure in SI units. Its inverse is the smallest valid figure other than 0.
MAX_FIGURE = 1e30


@dataclass(frozen=True)
class Samples:
    """The samples of one run."""

    #: One row per sample, in the order of the files.
    frame: pl.DataFrame
    #: Files whose last line has no newline. This line is ignored, since it is still being written
    #: or a crash cut it off.
    cut_off_files: list[str]
    #: Each file and the number of its rows.
    files: dict[Path, int]


@dataclass(frozen=True)
class NestedSamples:
    """The samples of one run and the records nested in them, which few callers need."""

    #: The same as in `Samples`.
    frame: pl.DataFrame
    #: One row per writer: `row` (the index of its sample in `frame`) and the fields of
    #: `WriterRecord` that are not mappings.
    writers: pl.DataFrame
    #: One row per target node of a sample: `row` and the fields of `NodeConditions`.
    conditions: pl.DataFrame


@dataclass(frozen=True)
class _Piece:
    path: Path
    #: Number of the piece's first line in the file.
    first_line: int
    #: Index of the piece's first row among the rows of all files.
    first_row: int
    line_count: int
    text: bytes


def read_run(run: Path) -> Samples:
    """The samples of the run in folder `run`, in the order of the cases' names.

    The frame is empty if there are no samples. Raises InputError for a duplicate key. Raises
    InputError with file and line for a line that is not a sample, or is a sample of another schema.
    """
    return read_samples(_files(run))


def read_nested(run: Path) -> NestedSamples:
    """The samples of a run, their writers and their conditions.

    Raises the same as `read_run`, but not for a duplicate key.
    """
    frames_of_pieces = _parsed_pieces(_files(run), [], {})
    samples, writers, conditions = (
        _concatenated(frames) for frames in zip(*frames_of_pieces, strict=True)
    )
    return NestedSamples(samples, writers, conditions)


def read_samples(paths: Iterable[Path], piece_b: int = _PIECE_B) -> Samples:
    """The samples in the files `paths` (JSON lines); raises the same as `read_run`.

    `piece_b`: bytes of a file that are parsed at once.
    """
    cut_off_files: list[str] = []
    files: dict[Path, int] = {}
    pieces = _parsed_pieces(paths, cut_off_files, files, piece_b)
    frame = _concatenated([samples for samples, _, _ in pieces])
    duplicate_keys = frame.filter(pl.col("key").is_duplicated())["key"]
    if len(duplicate_keys):
        key = duplicate_keys[0]
        raise InputError(f"duplicate sample key '{key}', {(duplicate_keys == key).sum()} times")
    return Samples(frame, cut_off_files, files)


def _files(run: Path) -> list[Path]:
    return sorted((run / "samples").glob("*.jsonl"), key=lambda path: natural_key(path.stem))


def _parsed_pieces(
    paths: Iterable[Path], cut_off_files: list[str], files: dict[Path, int], piece_b: int = _PIECE_B
) -> Iterator[tuple[pl.DataFrame, ...]]:
    """Yield samples, writers and conditions of each piece.

    The first frames are empty, so that the columns are known if there is no piece. Adds entries to
    `cut_off_files` and `files`, which become the fields of `Samples` with these names.
    """
    yield tuple(frame.clone() for frame in _empty_frames())
    workers = min(os.cpu_count() or 1, _MAX_PARALLEL_PIECES)
    parsed: deque[Future[tuple[pl.DataFrame, ...]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for piece in _pieces(paths, cut_off_files, piece_b):
            files[piece.path] = files.get(piece.path, 0) + piece.line_count
            parsed.append(pool.submit(_parsed_piece, piece))
            # One piece is read ahead of those being parsed, so that no core waits for a file.
            if len(parsed) > workers:
                yield parsed.popleft().result()
        while parsed:
            yield parsed.popleft().result()


@cache
def _empty_frames() -> tuple[pl.DataFrame, ...]:
    return _parsed_piece(_Piece(path=Path(), first_line=1, first_row=0, line_count=0, text=b""))


def _concatenated(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the rows of all `parts`, and remove all columns from `parts` to free them.

    Each column is copied into one block of memory. Otherwise the text that was read for a piece
    would stay in memory between its columns, and take as much memory as they do.
    """
    columns = []
    for name in parts[0].columns:
        column = pl.concat([part.drop_in_place(name) for part in parts])
        has_only_nulls = column.null_count() == len(column)
        columns.append(column if has_only_nulls else column.rechunk())
    return _with_shared_nulls(pl.DataFrame(columns))


def _with_shared_nulls(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame; its columns that have only nulls share one block of memory per type.

    Often a third of a run's columns hold only nulls: counts of some devices, bindings, timetables.
    """
    # Sizes are powers of two, so that frames of similar heights share blocks, too.
    size = 1 << frame.height.bit_length()
    return frame.with_columns(
        _nulls(type_, size).head(frame.height).alias(name)
        for name, type_ in frame.schema.items()
        if frame[name].null_count() == frame.height
    )


@cache
def _nulls(type_: pl.DataType, size: int) -> pl.Series:
    return pl.Series([None], dtype=type_).new_from_index(0, size)


def _pieces(paths: Iterable[Path], cut_off_files: list[str], piece_b: int) -> Iterator[_Piece]:
    """Yield the complete lines of all files in pieces.

    A file whose last line has no newline yet is added to `cut_off_files`.
    """
    first_row = 0
    for path in paths:
        first_line, begun_line = 1, b""
        with path.open("rb") as file:
            while text := file.read(piece_b):
                if b"\n" not in text:
                    begun_line += text
                    refuse_long(begun_line, f"{path}:{first_line}")
                    continue
                rest_of_line = text[: text.find(b"\n") + 1]
                refuse_long(begun_line + rest_of_line, f"{path}:{first_line}")
                end = text.rfind(b"\n") + 1
                complete_lines = begun_line + text[:end]
                begun_line = text[end:]
                line_count = complete_lines.count(b"\n")
                yield _Piece(path, first_line, first_row, line_count, complete_lines)
                first_line += line_count
                first_row += line_count
        if begun_line:
            cut_off_files.append(str(path))


def _parsed_piece(piece: _Piece) -> tuple[pl.DataFrame, ...]:
    """Return three frames: the samples of the piece, their writers and their conditions."""
    refuse_deep(piece.text, piece.path, piece.first_line)
    check_samples(piece.text, piece.path, piece.first_line)
    schema = _READ_TYPES | _NESTED_TYPES if b"\\" in piece.text else _READ_TYPES
    try:
        raw = pl.read_ndjson(io.BytesIO(piece.text), schema=schema)
        if b"\\" in piece.text:
            raw = _with_escapes(raw, piece.text.split(b"\n"))
        frame, *nested = _flatten(raw, piece.first_row)
    except pl.exceptions.PolarsError as error:
        message = str(error).splitlines()[0]
        raise InputError(f"{piece.path}:{piece.first_line}: {message}") from error
    writers, conditions = map(_with_shared_nulls, nested)
    return _with_shared_nulls(frame), writers, conditions


def _with_escapes(raw: pl.DataFrame, lines: Sequence[bytes]) -> pl.DataFrame:
    """Return the samples; mappings with a backslash are JSON text again.

    Polars drops escapes of backslashes from the text of a mapping. `lines` are those of the rows.
    """
    for name in _MAPPINGS:
        texts = raw[name].to_list()
        for row, text in enumerate(texts):
            if text and "\\" in text:
                texts[row] = json.dumps(json.loads(lines[row])[name], ensure_ascii=False)
        raw = raw.with_columns(pl.Series(name, texts, _TEXT_TYPE))
    return raw


def _flatten(raw: pl.DataFrame, first_row: int) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return three frames: the samples, their writers and their conditions.

    The frame of samples has columns of sums and extremes over writers and conditions.
    """
    outcome = pl.col("outcome").replace("kept", "accepted")  # schema 6 says `kept`
    decoded = raw.with_columns(
        outcome,
        *(
            pl.col(name).str.json_decode(type_)
            for name, type_ in _NESTED_TYPES.items()
            if raw.schema[name] == _TEXT_TYPE
        ),
    ).with_row_index("row", first_row)
    writers = _exploded(decoded, "writers")
    conditions = _exploded(decoded, "conditions")
    # Each figure is taken from the node on which it is worst.
    worst_conditions = conditions.group_by("row", maintain_order=True).agg(
        pl.col("foreign_cpus", "steal_share").max(), pl.col("frequency_hz").min()
    )
    timetable = pl.col("timetable").struct
    flat = decoded.drop("writers", "conditions").with_columns(
        pl.col("factors").fill_null("{}").cast(_NAME_TYPE),
        pl.col(name for name in _NAME_COLUMNS if name != "factors").cast(_NAME_TYPE),
        pl.col("nodes", "origin_nodes").list.join(",").cast(_NAME_TYPE),
        pl.col("notes").fill_null([]).cast(pl.List(_NAME_TYPE)),
        timetable=timetable.field("writers"),
        **{name: timetable.field(name) for name in _TIMETABLE_SHARES},
    )
    for columns in (_summed_writers(writers), worst_conditions):
        flat = flat.join(columns, on="row", how="left", maintain_order="left")
    flat = flat.drop("row").with_columns(
        pl.col(*_WRITER_NAMES).fill_null(""),
        pl.col("writers").fill_null(0),
        pl.col("writer_figures").fill_null(value=True),
        pl.col("same_host").fill_null(value=False),
    )
    return flat, writers, conditions


def _exploded(samples: pl.DataFrame, name: str) -> pl.DataFrame:
    """One row per record in the lists of the column `name`, with the `row` of its sample."""
    lists = samples.select("row", name)
    return lists.explode(name, empty_as_null=False, keep_nulls=False).unnest(name)


def _summed_writers(writers: pl.DataFrame) -> pl.DataFrame:
    """One row per sample that has writers: sums, extremes and distinct names of its writers."""
    col = pl.col
    # If each sample has one writer, the writer's name need not be joined with others.
    have_one_writer = writers["row"].n_unique() == writers.height

    def joined_names(field: str) -> pl.Expr:
        known = col(field).drop_nulls()
        return known.first() if have_one_writer else known.unique(maintain_order=True).str.join("+")

    # A writer must reach a share of this rate. It is the writer's uncontended rate, or the
    # requested rate if that is lower.
    reference_rate_b_s = pl.min_horizontal("rate_alone_b_s", "asked_b_s")
    share = (col("rate_min_b_s") / reference_rate_b_s).fill_nan(0.0)
    with_shares = writers.with_columns(
        # A control writes nothing and has no share.
        share=pl.when(col("message_b") > 0).then(share),
        has_valid_figures=pl.all_horizontal(
            col(name).is_between(0, MAX_FIGURE) for name in _WRITER_FIGURES
        )
        & col("rate_before_b_s").fill_null(0.0).is_between(0, MAX_FIGURE),
        counted_rate_b_s=col("counted_b") / col("counted_s"),
        on_target=col("origin") == col("target"),
    )
    summed = with_shares.group_by("row", maintain_order=True).agg(
        writers=pl.len(),
        # A link ends at a device of a target, of which each has a counter.
        writer_links=pl.struct("target", "counter").n_unique(),
        **{column: joined_names(field) for column, field in _WRITER_NAMES.items()},
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
        writer_figures=col("has_valid_figures").all(),
        counted_alone_b_s=col("counted_alone_b_s").max(),
        counted_b_s=col("counted_rate_b_s").max(),
        comm_node=col("buffer_node").max(),
        direction=col("direction").drop_nulls().first(),
        own_binding=col("own_binding").first(),
        target_on_node_share=col("target_on_node_share").min(),
        target_pinned_b=col("target_pinned_b").min(),
        same_host=col("on_target").any(),
        observed_share=col("observed_share").min(),
        unobserved_s=col("unobserved_s").max(),
        cpu_share=col("cpu_share").min(),
    )
    return summed.with_columns(col(*_WRITER_NAMES, "direction", "own_binding").cast(_NAME_TYPE))


# Tables as files.


def write_table(path: Path, frame: pl.DataFrame) -> None:
    """Write a table as Parquet; raises the same as `records.files.replace_bytes`."""
    replace_bytes(path, parquet(frame))


def parquet(frame: pl.DataFrame) -> bytes:
    """The table as Parquet."""
    out = io.BytesIO()
    frame.write_parquet(out, compression="zstd")
    return out.getvalue()
