"""Writes the table of results of a run, as a report does."""

from pathlib import Path

from analysis.report.data import load_run
from analysis.report.page import write_data


def add_table(run: Path) -> Path:
    """Write the run's data as `nimc report` does; return the path of the table of results."""
    (run / "report").mkdir()
    write_data(run / "report", [load_run(run)])
    return run / "report" / "results.parquet"
