"""Computes the golden results again with the present code: `python -m tests.golden`.

Run this only if a change of results is meant. CHANGELOG gives the reason for each such change.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.golden.computed import GOLDEN, RECORDED, exit_codes, rows_of, text_of
from tests.golden.made import RUNS, made_run


def main() -> None:
    """Write `golden.json`."""
    runs = {run.name: rows_of(run) for run in RECORDED}
    with TemporaryDirectory() as name:
        folder = Path(name)
        runs |= {str(number): rows_of(made_run(folder, number)) for number in range(RUNS)}
        GOLDEN.write_text(text_of(runs, dict(exit_codes(folder))))


if __name__ == "__main__":
    main()
