"""Tests that the answer of each question for a made run is that in `golden/NAME.json`.

A question is a section of the report. If a change of an answer is meant,
`python -m tests.analysis.questions.test_golden NAME ...` writes the file again.
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import analysis.subjects
from analysis.questions.question import Question, answer
from analysis.report.data import RunData, load_run
from analysis.report.sections import Part, data_files, sections_shown
from tests.analysis.made_counters import CASES
from tests.analysis.remedies import made_offload, made_rails
from tests.analysis.remedies.sweeps import sweep, swept
from tests.analysis.subjects import (
    made_causes,
    made_footprints,
    made_free_core,
    made_levels,
    made_numa,
    made_paper_tables,
    made_scaling,
)
from tests.analysis.synthetic import STREAM, Case, loaded_run, samples, write_run

_GOLDEN = Path(__file__).with_name("golden")
#: Function that makes a run in a folder, and returns its path.
RunMaker = Callable[[Path], Path]


def _rails_run(folder: Path) -> Path:
    return made_rails.rails_run(folder, made_rails.case(noise=0.02), pairs=7)


def _throttling_run(folder: Path) -> Path:
    return write_run(folder / "run", swept(sweep(noise=0.02), pairs=7))


def _levels_run(folder: Path) -> Path:
    case = made_levels.case_of_levels({"message": [64, 4096], "workers": ["nic", "other", "free"]})
    return write_run(folder / "run", samples(case, pairs=6))


def _counted_run(folder: Path) -> Path:
    cases = [CASES[index] for index in (0, 2, 3, 5)]
    return made_causes.made_run(folder, cases, processor="AuthenticAMD-26-2-1")


def _numa_run(folder: Path) -> Path:
    return made_numa.run_of(folder, made_numa.TWO_NODES)


def _priced_tool_run(folder: Path) -> Path:
    """Make a run with a tool that makes application runs 5 % slower."""
    return made_causes.priced(folder, 1.05)


def _scaling_run(folder: Path) -> Path:
    return made_scaling.run_of(folder, 16, 64, pairs=10).path


def _free_core_run(folder: Path) -> Path:
    return made_free_core.free_core_run(folder).path


def _offload_run(folder: Path) -> Path:
    return made_offload.made_run(folder, 0.12)


#: Name of a question -> function that makes a run with data for it.
RUNS: dict[str, RunMaker] = {
    **dict.fromkeys(
        ("by_rate", "prices", "remedy_times", "throttling", "throttled_runs", "dynamic_core"),
        _throttling_run,
    ),
    "by_level": _levels_run,
    **dict.fromkeys(("why", "roles", "correlations", "counters", "not_counted"), _counted_run),
    "correlations_of_runs": made_causes.made_run,
    "tool_prices": _priced_tool_run,
    **dict.fromkeys(("cache_or_memory", "footprints"), made_footprints.made_run),
    **dict.fromkeys(("mpi_calls", "rails", "rail_runs", "rail_calls"), _rails_run),
    **dict.fromkeys(("numa", "numa_findings"), _numa_run),
    **dict.fromkeys(("paper_table_2", "paper_table_3"), made_paper_tables.one_node),
    "paper_estimates": _scaling_run,
    **dict.fromkeys(("fabric", "served"), _free_core_run),
    "processing": _offload_run,
}


def questions() -> Iterator[Question]:
    """Yield all questions of the report: those that modules of `analysis.subjects` define."""
    for module in iter_modules(analysis.subjects.__path__, "analysis.subjects."):
        values = vars(import_module(module.name)).values()
        yield from (value for value in values if isinstance(value, Question))


@cache
def _loaded(make_run: RunMaker) -> tuple[RunData, TemporaryDirectory[str]]:
    """Return a made run, and its temporary folder, which some questions read later."""
    folder = TemporaryDirectory()
    return load_run(make_run(Path(folder.name)), force=True), folder


def rows(question: Question) -> list[dict[str, Any]]:
    """Return the answer for the question's run, in the form of its file."""
    run, _ = _loaded(RUNS[question.name])
    answers: list[dict[str, Any]] = json.loads(json.dumps(answer(question, run).to_dicts()))
    return answers


def test_a_run_is_made_for_every_question() -> None:
    assert sorted(question.name for question in questions()) == sorted(RUNS)


@pytest.mark.parametrize("question", list(questions()), ids=lambda question: question.name)
def test_a_question_is_answered_as_before(question: Question) -> None:
    golden = json.loads((_GOLDEN / f"{question.name}.json").read_text())
    answers = rows(question)
    assert [list(row) for row in answers] == [list(row) for row in golden]
    for row, golden_row in zip(answers, golden, strict=True):
        for name, value in row.items():
            expected = golden_row[name]
            if isinstance(value, float):
                expected = pytest.approx(expected, rel=1e-9)
            assert value == expected, name


#: STREAM with a factor at its first level, which makes no further treatment.
AT_FIRST_LEVEL = replace(STREAM, factors={"on": {"rate": "full"}, "aa": {"rate": 0}})


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("case", [STREAM, AT_FIRST_LEVEL])
def test_a_run_without_factors_has_only_the_sections_of_every_run(
    tmp_path: Path, case: Case
) -> None:
    run = loaded_run(tmp_path / "run", samples(case, pairs=8))
    parts: list[tuple[Part, object]] = [
        ("before_runs", [run]),
        ("lead", run),
        ("before_cases", run),
        *(("case", case_data) for case_data in run.cases),
        ("after_cases", run),
        ("after_runs", [run]),
    ]
    names = [
        section.declaration.name
        for part, subject in parts
        for section in sections_shown(part, subject)
    ]
    assert names == [
        "picture",
        "effects",
        "in_words",
        "conditions",
        "case_pictures",
        "treatments",
        "nodes",
        "paper_table_2",
        "paper_estimates",
        "about",
        "machine",
        "method",
    ]
    assert sorted(data_files([run])) == ["paper_estimates.json", "paper_table_2.json"]


if __name__ == "__main__":
    for question in questions():
        if question.name in sys.argv[1:]:
            lines = ",\n".join(json.dumps(row) for row in rows(question))
            (_GOLDEN / f"{question.name}.json").write_text(f"[\n{lines}\n]\n")
