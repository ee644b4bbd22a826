"""`nimc measure` measures a command as a campaign of one case.

Its messages name its options, not keys of a campaign.
"""

import json
import os
import re
import shlex
import subprocess
import zipfile
from pathlib import Path

import pytest
import yaml

from conductor.block.conductor import ADVICE
from nimc.cli.measure import Measurement, campaign_of
from records.calls import RunCommands, load_call
from records.checkout import ROOT
from records.commands import Shell
from records.errors import InputError
from records.measured import reworded_for_measure
from records.run import load_header
from tests.commands import Command, Nimc
from tests.nimc.documented import assert_documented
from tests.reframe_tests.reframe_call import script

REQUEST = {
    "nodes": 1,
    "ranks": None,
    "rate": "full",
    "figure": "",
    "unit": None,
    "higher": None,
    "worst": False,
    "repeat": 1,
    "busy": False,
}


def campaign(*program: str, **options: object) -> dict[str, object]:
    """Return the campaign of a command, parsed from its text."""
    text = campaign_of(program, Measurement(**{**REQUEST, **options})).text
    content: dict[str, object] = yaml.safe_load(text)
    return content


def test_a_command_is_a_campaign_of_one_case() -> None:
    content = campaign("./my solver", "-n", "$HOME", rate="2GB/s", repeat=4, busy=True)
    (entry,) = content["workloads"]  # type: ignore[misc]
    assert content["name"] == entry["case"]
    assert shlex.split(entry["set"]["command"]) == ["./my solver", "-n", "$HOME"]
    assert entry["set"] == {"command": entry["set"]["command"], "repeat": 4}
    assert content["injector"] == {"rate": "2GB/s"}
    assert content["verify"] == dict.fromkeys(["foreign_cpus", "steal_share", "frequency_drop"])
    assert content["title"] == "'./my solver' -n '$HOME'"


def test_the_rate_may_be_a_share_of_the_full_one(nimc: Nimc) -> None:
    script(nimc.folder / "solver", "true")
    status, _, err = measured(nimc, "--rate", "25%", "./solver")
    assert status == 0, err
    (run,) = nimc.runs()
    plan = json.loads(next(run.glob("logs/*/0/plan.json")).read_text())
    shares = {
        treatment["name"]: (treatment["writes"] or {}).get("rate_share")
        for treatment in plan["treatments"]
    }
    assert {name: share for name, share in shares.items() if share} == {"on@rate=25%": 0.25}


def test_each_command_has_its_own_name_which_no_workload_has() -> None:
    """Campaign, case, and reference in a machine's file have this name."""
    names = [
        campaign(*words, **options)["name"]
        for words, options in (
            (("stream",), {}),
            (("stream", "-n", "2"), {}),
            (("stream",), {"repeat": 2}),
            (("stream",), {"figure": "x", "higher": True}),
            (("stream",), {"figure": "x", "higher": False}),
            (("/bin/stream",), {}),
        )
    ]
    assert len(set(names)) == len(names)
    assert {str(name).partition("-")[0] for name in names} == {"stream"}
    assert "stream" not in names
    assert campaign("stream", rate="1GB/s")["name"] == names[0]


@pytest.mark.parametrize(
    ("options", "unit", "better"),
    [
        ({"unit": "ms"}, "ms", "lower"),
        ({"unit": "MB/s"}, "MB/s", "higher"),
        ({"unit": "steps/s"}, "steps/s", "higher"),
        ({"unit": "MB/s", "higher": False}, "MB/s", "lower"),
        ({"higher": True}, "1", "higher"),
    ],
)
def test_the_unit_decides_whether_higher_figures_are_better_unless_requested(
    options: dict[str, object], unit: str, better: str
) -> None:
    (entry,) = campaign("x", figure="(.*)", **options)["workloads"]  # type: ignore[misc]
    assert entry["set"] == {"command": "x", "figure": "(.*)", "unit": unit, "better": better}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--rate fast -- true", "--rate: 'fast' is not a rate; write a number and one of"),
        ("--rate 0GB/s true", "--rate: '0GB/s' is not above zero; allowed: full, or a rate"),
        (
            "--rate 0% true",
            "--rate: '0%' is not a share above 0; allowed: a percentage, such as 50%",
        ),
        ("--rate 120% true", "--rate: "),
        ("--nodes 2 true", "--nodes: 2 found; allowed: 1, or more with --ranks"),
        ("--nodes 10001 --ranks 1 true", "--nodes"),
        ("--figure x true", "--figure: which numbers are better is not known; give --higher or"),
        ("--figure ( true", "--figure: '(' found: missing ), unterminated subpattern"),
        ("--figure x --unit M.B --higher --unit '' true", "--unit: '' found; allowed: a word"),
        ("--unit s true", "--unit: has no effect without --figure"),
        ("--worst true", "--worst: has no effect without --figure"),
        ("--lower true", "--lower: has no effect without --figure"),
        ("./nothing-here", "PROGRAM: './nothing-here' is not an executable file"),
        ("nothing-here", "PROGRAM: no program 'nothing-here' on PATH"),
        ("--pairs 6 true", "--pairs: 6 found; allowed: 8 or more"),
        ("--pairs 7 true", "--pairs: 7 found; allowed, as verdicts need: 6, 8, 12"),
    ],
)
def test_a_wrong_option_is_named(command: Command, words: str, says: str) -> None:
    refused = command.refused("measure", "--machine", "localhost", *shlex.split(words))
    assert refused.startswith(says)
    assert "campaign" not in refused


@pytest.mark.parametrize(
    ("word", "corrected"),
    [("sleep 2", "sleep 2"), ("cd x && true", "sh -c 'cd x && true'")],
)
def test_a_whole_command_line_in_one_word_is_refused_with_its_words(
    command: Command, word: str, corrected: str
) -> None:
    line = command.refused("measure", "--machine", "localhost", "--pairs", "12", word, "a b")
    assert line.startswith(f"PROGRAM: no program {word!r}; allowed: separate words: `")
    assert line.endswith(f" measure --machine localhost --pairs 12 -- {corrected} 'a b'`")
    assert "separate words" not in command.refused("measure", "/no such folder/solver")


def test_a_program_whose_name_has_blanks_is_measured(nimc: Nimc) -> None:
    script(nimc.folder / "my solver", "true")
    status, _, err = measured(nimc, "./my solver")
    assert status == 0, err


def test_options_after_the_program_are_named_unless_they_are_meant(nimc: Nimc) -> None:
    script(nimc.folder / "solver", "true")
    note = "words after './solver' are its arguments, not options of nimc: --pairs, --rate ("
    for between, is_noted in (([], True), (["--"], False)):
        words = [*between, "./solver", "--pairs", "12", "--rate=25%", "--steps", "3"]
        status, _, err = measured(nimc, *words, faults="torn")
        assert (status, note in err) == (3, is_noted), err


def test_words_of_a_command_that_are_not_utf_8_are_refused() -> None:
    with pytest.raises(InputError, match="not UTF-8 text"):
        campaign_of(["x", "\udcff"], Measurement(**REQUEST))


def measured(
    nimc: Nimc, *words: str, folder: Path | None = None, faults: str = ""
) -> tuple[int, str, str]:
    argv = ["measure", "--machine", "localhost", "--results", str(nimc.results), *words]
    return nimc.typed(argv, folder or nimc.folder, faults=faults)


def test_a_measurement_is_resumed_by_the_printed_command_from_any_folder(nimc: Nimc) -> None:
    """The program's own options, even `--fresh`, are passed on unchanged."""
    script(nimc.folder / "solver", "true")
    words = ["--rate", "2GB/s", "--busy", "--", "./solver", "--fresh", "a b"]
    status, _, err = measured(nimc, *words, faults="torn")
    assert status == 3
    line = err.splitlines()[-1].partition("then resume: ")[2]
    (run,) = nimc.runs()
    assert shlex.split(line)[-len(words) :] == words
    assert load_call(run, "").folder == nimc.folder
    away = RunCommands(run, "", "localhost", Shell(Path("/"))).resume("--pairs", "12")
    to, _, typed = away.partition(" && ")
    assert to == f"cd {nimc.folder}"
    assert shlex.split(typed)[1:] == [
        "measure",
        "--machine",
        "localhost",
        "--rate",
        "2GB/s",
        "--busy",
        "--pairs",
        "12",
        "--",
        "./solver",
        "--fresh",
        "a b",
    ]
    status, out, err = nimc.typed(shlex.split(typed)[1:], nimc.folder)
    assert (status, f"resumes {run}" in err) == (0, True), err
    assert "solver-" in out
    assert nimc.runs() == [run]


def test_the_same_command_in_another_folder_starts_another_run(nimc: Nimc) -> None:
    """In another folder, the same words may name another program."""
    for name in ("one", "two"):
        before = nimc.runs() if nimc.results.exists() else []
        script(nimc.folder / name / "solver", "true")
        status, _, err = measured(nimc, "./solver", folder=nimc.folder / name, faults="torn")
        assert (status, "starts" in err) == (3, True), err
    assert f"does not resume {before[0]}: it was started in another folder" in err
    one, two = sorted(nimc.runs(), key=lambda run: str(load_call(run, "").folder))
    assert [load_call(run, "").folder for run in (one, two)] == [
        nimc.folder / name for name in ("one", "two")
    ]
    assert load_header(one).digest == load_header(two).digest
    plan = json.loads(next(two.glob("logs/*/0/plan.json")).read_text())
    assert plan["folder"] == str(nimc.folder / "two")


@pytest.mark.slow
def test_a_packed_measurement_has_no_local_paths_and_its_command_is_not_run_again(
    nimc: Nimc, command: Command, tmp_path: Path
) -> None:
    folder = nimc.folder / "a secret project"
    script(folder / "solver", "true")
    status, _, err = measured(nimc, "./solver", folder=folder)
    assert status == 0, err
    (run,) = nimc.runs()
    crate = tmp_path / "run.zip"
    command("pack", run, "-o", crate)
    with zipfile.ZipFile(crate) as packed:
        content = {name: packed.read(name) for name in packed.namelist()}
    assert b"./solver" in content["campaign.yaml"]
    named = [name for name, text in content.items() if b"a secret project" in text]
    assert not named
    path = os.environ["PATH"].encode()
    assert not [name for name, text in content.items() if path in text]
    refusal = command.refused("reproduce", crate, "--machine", "localhost")
    assert "a command that the packer chose is not run; allowed: --analysis-only" in refusal


def test_advice_after_failures_names_options_of_nimc_measure() -> None:
    advised = [reworded_for_measure(f"8 runs rejected; {advice}") for advice in ADVICE.values()]
    assert not [text for text in advised if "limit" in text]
    assert advised[0].endswith("wait until they end, or give --busy")


#: The command of `nimc measure` that README shows to a newcomer, without `nimc`.
_README_COMMANDS = re.findall(
    r"^    \.venv/bin/nimc (measure .*)$", (ROOT / "README.md").read_text(), re.M
)


@pytest.mark.slow
def test_the_command_of_readme_is_measured_as_printed_there(nimc: Nimc) -> None:
    (line,) = _README_COMMANDS
    command_name, *words = shlex.split(line)
    program = words[words.index("--") + 1 :]
    subprocess.run(program, check=True, timeout=300)
    status, out, err = measured(nimc, *words)
    assert (command_name, status) == ("measure", 0), err
    assert out.splitlines()[0].endswith(f": {shlex.join(program)}")


@pytest.mark.parametrize("page", ["tutorial", "benchmarks"])
def test_pages_show_the_command_of_readme(page: str) -> None:
    """The tutorial shows its output, and benchmarks its duration."""
    assert f"nimc {_README_COMMANDS[0]}" in (ROOT / f"docs/{page}.md").read_text()


def test_json_is_one_document_although_the_program_has_an_option_json_too(nimc: Nimc) -> None:
    script(nimc.folder / "solver", "true")
    status, out, err = measured(nimc, "--json", "./solver", "--json")
    assert status == 0, err
    document = json.loads(out)
    assert_documented("measure", document)
    assert document["campaign"].startswith("solver-")
