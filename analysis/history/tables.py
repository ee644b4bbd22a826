"""Tables of a history: one row per run, and one per night and watched quantity."""

from __future__ import annotations

from typing import Literal

import polars as pl

#: Number of the tables' schema; stored with every file.
SCHEMA_VERSION = 1

#: Before a counter's role, which is watched like `fom` (median of an arm), `slowdown` and
#: `writer_rate`.
COUNTER = "counter:"

#: How a night ended; one that was not run has no run, and is known from the calendar.
Outcome = Literal["measured", "slower", "not run", "inconclusive", "machine failed"]

#: One row per run.
RUNS: dict[str, pl.DataType] = {
    "machine": pl.String(),
    "campaign": pl.String(),
    "run": pl.String(),
    "started_s": pl.Float64(),
    # Null while unfinished.
    "finished_s": pl.Float64(),
    "digest": pl.String(),
    "commit": pl.String(),
    "samples": pl.Int64(),
    "rejected": pl.Int64(),
    # Null if nobody recorded it.
    "outcome": pl.String(),
    # JSON object of text: flat name -> value of what made the run (kernel, microcode, MPI, ...).
    "made": pl.String(),
    # Nodes of all samples, sorted and joined with commas.
    "nodes": pl.String(),
    # Size of the run's folder, and SHA-256 over its sample files.
    "size_b": pl.Int64(),
    "sha256": pl.String(),
    # Head of its chain; null of runs without one, and of entries of earlier versions.
    "head": pl.String(),
}

#: One row per run and watched quantity; the four of `KEY` name what is watched on a machine.
NIGHTS: dict[str, pl.DataType] = {
    "machine": pl.String(),
    "campaign": pl.String(),
    "run": pl.String(),
    "started_s": pl.Float64(),
    # Day of the start, UTC.
    "night": pl.Date(),
    "case": pl.String(),
    # The treatment; of `fom` of a baseline the baseline's name.
    "arm": pl.String(),
    "quantity": pl.String(),
    "unit": pl.String(),
    # `higher` or `lower`.
    "better": pl.String(),
    # The night's median (slowdown: estimate), with its interval where there is one.
    "value": pl.Float64(),
    "low": pl.Float64(),
    "high": pl.Float64(),
    # Runs or pairs that it is made of.
    "count": pl.Int64(),
    # Of a slowdown; null otherwise.
    "verdict": pl.String(),
    # Target nodes, sorted and joined with commas.
    "nodes": pl.String(),
}
KEY = ("campaign", "case", "arm", "quantity")
