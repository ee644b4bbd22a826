"""What each question answers for a made run: the rows of `golden/NAME.json`.

`python -m tests.analysis.questions.test_golden NAME ...` writes those of questions whose answer is
meant to change.
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
Maker = Callable[[Path], Path]


def _rails(folder: Path) -> Path:
    return made_rails.rails_run(folder, made_rails.case(noise=0.02), pairs=7)


def _sweep(folder: Path) -> Path:
    return write_run(folder / "run", swept(sweep(noise=0.02), pairs=7))


def _levels(folder: Path) -> Path:
    case = made_levels.case_of_levels({"message": [64, 4096], "workers": ["nic", "other", "free"]})
    return write_run(folder / "run", samples(case, pairs=6))


def _counted(folder: Path) -> Path:
    cases = [CASES[index] for index in (0, 2, 3, 5)]
    return made_causes.made_run(folder, cases, processor="AuthenticAMD-26-2-1")


#: Question -> a made run that has its data.
MADE: dict[str, Maker] = {
    **dict.fromkeys(("by_rate", "prices", "remedy_times", "throttling", "throttled_runs"), _sweep),
    "dynamic_core": _sweep,
    "by_level": _levels,
    **dict.fromkeys(("why", "roles", "correlations", "counters", "not_counted"), _counted),
    "correlations_of_runs": made_causes.made_run,
    "tool_prices": lambda folder: made_causes.priced(folder, 1.05),
    **dict.fromkeys(("cache_or_memory", "footprints"), made_footprints.made_run),
    **dict.fromkeys(("mpi_calls", "rails", "rail_runs", "rail_calls"), _rails),
    **dict.fromkeys(
        ("numa", "numa_findings"), lambda folder: made_numa.run_of(folder, made_numa.TWO_NODES)
    ),
    **dict.fromkeys(("paper_table_2", "paper_table_3"), made_paper_tables.one_node),
    "paper_estimates": lambda folder: made_scaling.run_of(folder, 16, 64, pairs=10).path,
    **dict.fromkeys(("fabric", "served"), lambda folder: made_free_core.free_core_run(folder).path),
    "processing": lambda folder: made_offload.made_run(folder, 0.12),
}


def questions() -> Iterator[Question]:
    """All questions of the report."""
    for module in iter_modules(analysis.subjects.__path__, "analysis.subjects."):
        named = vars(import_module(module.name)).values()
        yield from (attribute for attribute in named if isinstance(attribute, Question))


@cache
def _loaded(maker: Maker) -> tuple[RunData, TemporaryDirectory[str]]:
    """The run, and its folder, from which some questions read more."""
    folder = TemporaryDirectory()
    return load_run(maker(Path(folder.name)), force=True), folder


def rows(question: Question) -> list[dict[str, Any]]:
    """The answer for the made run, as its file has it."""
    run, _ = _loaded(MADE[question.name])
    answers: list[dict[str, Any]] = json.loads(json.dumps(answer(question, run).to_dicts()))
    return answers


def test_every_question_has_an_answer_here() -> None:
    assert sorted(question.name for question in questions()) == sorted(MADE)


@pytest.mark.parametrize("question", list(questions()), ids=lambda question: question.name)
def test_a_question_is_answered_as_before(question: Question) -> None:
    golden = json.loads((_GOLDEN / f"{question.name}.json").read_text())
    answers = rows(question)
    assert [list(row) for row in answers] == [list(row) for row in golden]
    for row, before in zip(answers, golden, strict=True):
        for name, value in row.items():
            exact = not isinstance(value, float)
            assert value == (before[name] if exact else pytest.approx(before[name], rel=1e-9)), name


#: The first level of a factor, which is no treatment of its own.
_FIRST = {"on": {"rate": "full"}, "aa": {"rate": 0}}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("case", [STREAM, replace(STREAM, factors=_FIRST)])
def test_a_run_of_writes_alone_has_no_other_sections(tmp_path: Path, case: Case) -> None:
    run = loaded_run(tmp_path / "run", samples(case, pairs=8))
    parts: list[tuple[Part, object]] = [
        ("machine", [run]),
        ("lead", run),
        ("run", run),
        *(("case", case_data) for case_data in run.cases),
        ("end", run),
        ("after", [run]),
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
    for declared in questions():
        if declared.name in sys.argv[1:]:
            lines = ",\n".join(json.dumps(row) for row in rows(declared))
            (_GOLDEN / f"{declared.name}.json").write_text(f"[\n{lines}\n]\n")
