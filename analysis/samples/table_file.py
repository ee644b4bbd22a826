"""Tables as files: Parquet, and CSV that is safe to open in a spreadsheet."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import polars as pl
from polars import selectors

from nimc.base.files import replace
from nimc.base.text import cell

_TEXT = selectors.by_dtype(pl.String, pl.Categorical, pl.Enum)


def write_table(path: Path, frame: pl.DataFrame) -> None:
    """Write a table as CSV or Parquet, by the file's ending; see `nimc.base.files`."""
    replace(path, _csv(frame) if path.suffix == ".csv" else parquet(frame))


def parquet(frame: pl.DataFrame, metadata: Mapping[str, str] | None = None) -> bytes:
    """The table as Parquet."""
    out = io.BytesIO()
    frame.write_parquet(out, compression="zstd", metadata=dict(metadata or {}))
    return out.getvalue()


def _csv(frame: pl.DataFrame) -> bytes:
    text = _TEXT.cast(pl.String).map_elements(cell, return_dtype=pl.String)
    return frame.with_columns(text).write_csv().encode()
