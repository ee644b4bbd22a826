from __future__ import annotations

import io

import polars as pl

from analysis.samples.columns import with_shared_nulls

MIB = 1 << 20


def _resident_b() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_values_and_types_stay() -> None:
    frame = pl.DataFrame(
        {
            "some": [None, 1.5, None],
            "number": pl.Series([None] * 3, dtype=pl.Float64),
            "word": pl.Series([None] * 3, dtype=pl.Categorical),
            "list": pl.Series([None] * 3, dtype=pl.List(pl.String)),
        }
    )
    lean = with_shared_nulls(frame)
    assert lean.schema == frame.schema
    assert lean.rows() == frame.rows() == [(None,) * 4, (1.5, *(None,) * 3), (None,) * 4]
    assert with_shared_nulls(frame.clear()).schema == frame.schema


def test_memory_does_not_grow_with_the_frames() -> None:
    lines = b"{}\n" * (MIB // 8)
    types = dict.fromkeys("abcd", pl.Float64())
    before_b = _resident_b()
    kept = []
    for _ in range(40):  # 4 columns of 1 MiB in each, of which nothing is left
        kept.append(with_shared_nulls(pl.read_ndjson(io.BytesIO(lines), schema=types)))
    assert pl.concat(kept)["d"].null_count() == 40 * MIB // 8
    assert _resident_b() - before_b < 100 * MIB
