"""The table of results that a report writes."""

from pathlib import Path

from analysis.report.data import load_run
from analysis.report.page import write_data


def add_table(run: Path) -> Path:
    """Write the run's data as `nimc report` does; returns the table of its results."""
    (run / "report").mkdir()
    write_data(run / "report", [load_run(run)])
    return run / "report" / "results.parquet"
