"""Computes the content of `golden.json`: results of runs, and exit codes of commands.

The program is used only by interfaces that will not change: it reads the folder of a run, and gives
a frame of results or an exit code.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import nimc
from scripts.rechain import rechain
from tests.analysis.synthetic import STARTED_S, Case, header, samples, write_run
from tests.captures import RUN_QUICK
from tests.golden.made import made_run
from tests.in_process import call

GOLDEN = Path(__file__).with_name("golden.json")
#: Columns of the results that are stored in `golden.json`, in this order.
COLUMNS = [
    "case",
    "arm",
    "role",
    "pairs",
    "rejected",
    "off_median",
    "on_median",
    "slowdown",
    "slowdown_low",
    "slowdown_high",
    "mean",
    "mean_low",
    "mean_high",
    "noise_floor_low",
    "noise_floor_high",
    "control_low",
    "control_high",
    "writer_rate_b_s",
    "verdict",
    "slower_than_reference",
]
RECORDED = [RUN_QUICK]
#: Number of the made run for which exit codes are stored. It is used as it is, and damaged.
_RUN_NUMBER = 1
#: Significant digits of floats that are stored. The test compares fewer digits.
_DIGITS = 12

Row = list[Any]


def rows_of(run: Path) -> list[Row]:
    """Return the results of a run: a row for each effect, control and repeated baseline."""
    return [list(row) for row in nimc.load(run).results.select(COLUMNS).iter_rows()]


# Exit codes.

Edit = Callable[[str], str]


def _edited(folder: Path, edit: Edit, *, chained: bool = False) -> Path:
    """Make a run and edit its samples.

    If `chained`, the chain of digests over the samples is computed again, so that it fits the edit.
    """
    run = made_run(folder, _RUN_NUMBER)
    path = run / "samples" / "a.jsonl"
    path.write_text(edit(path.read_text()))
    return rechain(run) if chained else run


def _on_first_accepted(edit: Callable[[dict[str, Any]], Any]) -> Edit:
    """Return a function that applies `edit` to the first accepted sample of the arm `on`."""

    def edited(text: str) -> str:
        lines = text.splitlines(keepends=True)
        for number, line in enumerate(lines):
            sample = json.loads(line)
            if sample["arm"] == "on" and sample["outcome"] == "accepted":
                edit(sample)
                lines[number] = json.dumps(sample) + "\n"
                break
        return "".join(lines)

    return edited


def _without_third_line(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(lines[:2] + lines[3:])


def _with_third_line_twice(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(lines[:3] + lines[2:])


def _slow_writer(sample: dict[str, Any]) -> None:
    for writer in sample["writers"]:
        writer["rate_b_s"] *= 0.1
        writer["rate_min_b_s"] *= 0.1
        writer["bytes_b"] *= 0.1


#: Name of a damage -> the edit that makes it, and whether the chain of digests is computed again
#: after the edit. nimc must not show results of a run with one of these damages.
DAMAGES: dict[str, tuple[Edit, bool]] = {
    "a figure changed": (
        _on_first_accepted(lambda sample: sample.update(fom=1.5 * sample["fom"])),
        False,
    ),
    "a line deleted": (_without_third_line, False),
    "a line twice": (_with_third_line_twice, True),
    "a line of no JSON": (lambda text: "{" + text, False),
    "a negative figure": (_on_first_accepted(lambda sample: sample.update(fom=-1.0)), True),
    "a later schema": (_on_first_accepted(lambda sample: sample.update(schema=1000)), True),
    "a field missing": (_on_first_accepted(lambda sample: sample.pop("fom_unit")), True),
    "an accepted writer too slow": (_on_first_accepted(_slow_writer), True),
    "accepted without a writer": (
        _on_first_accepted(lambda sample: sample.update(writers=[])),
        True,
    ),
}


def _nights(folder: Path, side: str, slowdown: float) -> list[Path]:
    """Make runs of one case in seven nights."""
    case = Case(
        name="a",
        unit="s",
        better="lower",
        base=8.4,
        effects={"on": slowdown, "aa": 1.0},
        noise=0.003,
    )
    runs = []
    for night in range(7):
        started_s = STARTED_S + 86400.0 * night
        head = replace(header(run=f"{side}-{night}", started_s=started_s), finished_s=started_s)
        runs.append(write_run(folder / head.run, samples(case, pairs=8, seed=night), head))
    return runs


def exit_codes(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the names of situations, each with the exit code of the command that is run in it."""
    yield "a recorded run", call(["advise", RUN_QUICK])[0]
    yield "a made run", call(["advise", made_run(folder / "sound", _RUN_NUMBER)])[0]
    for name, (edit, chained) in DAMAGES.items():
        run = _edited(folder / name, edit, chained=chained)
        yield name, call(["advise", run])[0]
    headless = made_run(folder / "headless", _RUN_NUMBER)
    (headless / "run.json").unlink()
    yield "no header", call(["advise", headless])[0]
    before, same, worse = (
        _nights(folder, side, slowdown)
        for side, slowdown in (("before", 1.1), ("same", 1.1), ("worse", 1.4))
    )
    reference = [word for night in before for word in ("--reference", night)]
    yield "nights compared, the same", call(["compare", *same, *reference, "--fail"])[0]
    yield "nights compared, worse", call(["compare", *worse, *reference, "--fail"])[0]
    yield "one night compared", call(["compare", before[0], worse[0], "--fail"])[0]


# The file `golden.json` has one line for each row, so that `git diff` shows each changed row as one
# line.


def rounded(row: Row) -> Row:
    """Return the row with floats rounded to the stored digits."""
    return [float(f"{cell:.{_DIGITS}g}") if isinstance(cell, float) else cell for cell in row]


def text_of(runs: dict[str, list[Row]], codes: dict[str, int]) -> str:
    """Return the golden results and exit codes as JSON text."""
    lines = ["{", '"columns": ' + json.dumps(COLUMNS) + ",", '"exit_codes": {']
    lines += [",\n".join(f"{json.dumps(name)}: {code}" for name, code in codes.items()), "},"]
    entries = [
        f'"{name}": [\n' + ",\n".join(json.dumps(rounded(row)) for row in rows) + "\n]"
        for name, rows in runs.items()
    ]
    return "\n".join([*lines, '"runs": {', ",\n".join(entries), "}", "}", ""])
