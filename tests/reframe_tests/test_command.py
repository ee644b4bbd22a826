"""Tests of the check `command`: it starts and repeats a user's command, and reads its output."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conductor.block.readers import FomError
from records.checkout import ROOT, python_main
from records.notes import Note
from reframe_tests.workload import load_workload
from tests.conductor.conftest import needs
from tests.reframe_tests.reframe_call import plan_of, reframe, samples_of, script, succeeded
from tests.undisturbed import VARIABLES

BIN = Path(sys.executable).parent


def timed(
    *words: object, times: int = 1, figure: str = "", **options: object
) -> subprocess.CompletedProcess[str]:
    """Run a command `times` times with reframe_tests.timed, as a job does."""
    defaults = {"which": "last", "better": "lower", "unit": "s"}
    reading = [str(options.pop(name, value)) for name, value in defaults.items()]
    command = python_main("reframe_tests.timed", str(times), figure, *reading, *map(str, words))
    options = {"stdin": subprocess.DEVNULL, "timeout": 60, **options}
    return subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload,no-any-return]


def test_a_figure_is_the_mean_of_all_repetitions(tmp_path: Path) -> None:
    """The program counts its starts, and prints 10, 20 and 60 ms at the first three starts."""
    program = script(
        tmp_path / "a program",
        'echo x >> count; set -- 10 20 60; shift $(($(wc -l < count) - 1)); echo "took: $1 ms"',
    )
    done = timed(program, times=3, figure=r"took: (\d+)", unit="ms", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    fom = load_workload("command").parse(done.stdout)
    assert (fom.value, fom.unit, fom.better) == (pytest.approx(0.030), "s", "lower")
    assert fom.extra == {"repetitions": 3, "matches": 1}
    assert fom.notes == []


def test_the_figure_in_seconds_is_the_mean_time_of_one_repetition() -> None:
    """Each of three repetitions takes at least 0.2 s, and the figure is not their sum."""
    done = timed("sleep", "0.2", times=3)
    fom = load_workload("command").parse(done.stdout)
    figures = [float(line.split()[-1]) for line in done.stdout.split("\n") if line]
    assert len(figures) == 3
    assert min(figures) >= 0.2
    assert fom.value == pytest.approx(sum(figures) / 3)


@pytest.mark.parametrize(
    ("which", "better", "expected"),
    [("last", "lower", 7.5), ("worst", "lower", 12.0), ("worst", "higher", 3.0)],
)
def test_the_figure_is_the_last_or_the_worst_of_several_matches(
    which: str, better: str, expected: float
) -> None:
    printed = "echo rate 12.0; echo rate 3.0; echo rate 7.5"
    variables = {"which": which, "better": better, "unit": "widgets"}
    done = timed("sh", "-c", printed, figure=r"rate (\S+)", **variables)
    fom = load_workload("command").parse(done.stdout)
    assert (fom.value, fom.unit, fom.better) == (expected, "widgets", better)
    assert fom.notes == ([Note.SEVERAL_FIGURES()] if which == "last" else [])


def test_fortran_numbers_and_numbers_with_thousands_separators_are_compared_by_value() -> None:
    printed = "echo rate 900; echo rate 1.5D3; echo rate 1,200"
    done = timed("sh", "-c", printed, figure=r"rate (\S+)", which="worst", better="lower")
    assert load_workload("command").parse(done.stdout).value == 1500


@pytest.mark.parametrize("printed", ["1,5", "0,123", "1,234,5", "12,34", ",500", "1,234.5,6"])
def test_a_decimal_comma_is_no_number(printed: str) -> None:
    """A program with the locale de_DE prints 1,5 for 1.5; that is not 15."""
    done = timed("echo", "rate", printed, figure=r"rate (\S+)")
    with pytest.raises(FomError, match=f"the figure's pattern matches '{printed}', no number"):
        load_workload("command").parse(done.stdout)


def test_a_rank_that_prints_no_number_leaves_no_worst_figure() -> None:
    done = timed(
        "sh", "-c", "echo rate 5; echo rate -; echo rate 6", figure=r"rate (\S+)", which="worst"
    )
    with pytest.raises(FomError, match="the figure's pattern matches '-', no number"):
        load_workload("command").parse(done.stdout)


def test_a_pattern_without_a_group_takes_the_whole_match() -> None:
    done = timed("echo", "it took 1,250 s", figure="[0-9,]+")
    assert load_workload("command").parse(done.stdout).value == 1250


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("sh", "-c", "exit 3"), 3, ""),
        (("sh", "-c", "kill -SEGV $$"), 128 + 11, ""),
        (("./nothing-here",), 127, "./nothing-here: No such file or directory"),
        (("/",), 127, "/: Permission denied"),
    ],
)
def test_no_repetition_follows_one_that_fails(
    words: tuple[str, ...], status: int, says: str
) -> None:
    done = timed(*words, times=3)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (status, "", says)
    with pytest.raises(FomError, match="each repetition ended with exit status 0"):
        load_workload("command").parse(done.stdout)


def test_an_output_without_the_last_repetition_is_refused() -> None:
    done = timed("true", times=2)
    first = done.stdout.partition("2/2")[0].rpartition("\nnimc")[0]
    assert "1/2" in first
    with pytest.raises(FomError, match="1 of 2 repetitions ended"):
        load_workload("command").parse(first)


def test_a_program_that_reads_its_input_finds_an_empty_input() -> None:
    done = timed(sys.executable, "-c", "input('name? ')")
    assert done.returncode == 1
    assert "EOFError" in done.stderr
    assert timed("cat").returncode == 0


def test_a_command_gets_the_environment_of_the_user(tmp_path: Path) -> None:
    """PYTHONPATH does not name this checkout, and the user's own `python3` stays first on PATH."""
    script(tmp_path / "python3", "echo another")
    path = os.pathsep.join([str(BIN), str(tmp_path), "/usr/bin", "/bin"])
    added = os.pathsep.join([str(ROOT), "/theirs"])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": added}
    shown = 'echo "$PYTHONPATH"; python3; command -v hydra_nameserver'
    done = timed("sh", "-c", shown, env=environment)
    assert done.stdout.splitlines()[:3] == ["/theirs", "another", str(BIN / "hydra_nameserver")]


def settings(**changes: object) -> dict[str, object]:
    return {"command": "true", **changes}


#: Settings of a check with which no command can be measured, and what the message says after the
#: name of the check.
REFUSED = [
    ({"command": "'unclosed"}, "command: No closing quotation"),
    (
        {"command": "echo {slots}"},
        "command: echo {slots} found; allowed: a program and its arguments, without {targets}",
    ),
    ({"which": "first"}, "which: first found; allowed: last, worst"),
    ({"nodes": 1, "figure": "("}, "figure: '(' found: missing )"),
    ({"nodes": 0}, "nodes: 0 found; allowed: 1, or ranks_per_node from 1"),
    ({"ranks_per_node": -1}, "ranks_per_node: -1 found; allowed: numbers from 0"),
    ({"unit": "M B"}, "unit: M B found; allowed: a word without spaces"),
    ({"ranks_per_node": 1, "tool": "perf_stat"}, "tool: perf_stat found"),
]


@pytest.mark.slow
def test_the_message_names_a_setting_with_which_no_command_can_be_measured(tmp_path: Path) -> None:
    """One start of ReFrame runs a class for each of the refused settings."""
    text = "import reframe as rfm\nfrom reframe_tests.command import command\n"
    words: list[object] = ["--dry-run"]
    for number, (changes, _) in enumerate(REFUSED):
        text += f"\n\n@rfm.simple_test\nclass refused{number}(command):\n    pass\n"
        for name, value in settings(**changes).items():
            words += ["-S", f"refused{number}.{name}={value}"]
    (tmp_path / "checks.py").write_text(text)
    done = reframe(tmp_path, "localhost", tmp_path / "checks.py", *words, name="refused.*")
    output = re.sub(r"\s+", " ", done.stdout)
    for number, (_, message) in enumerate(REFUSED):
        assert f"refused{number}.{message}" in output, output


@pytest.mark.slow
def test_each_repetition_starts_the_launcher(tmp_path: Path) -> None:
    variables = settings(command="./solver 'an input'", ranks_per_node=2, figure="x", unit="MB/s")
    variables |= {"better": "higher"}
    words = ["--dry-run", "-p", "wheels"]
    succeeded(reframe(tmp_path, "localhost", "command", *words, settings=variables))
    plan = plan_of(tmp_path, "command")
    assert (plan["fom_unit"], plan["fom_better"]) == ("B/s", "higher")
    start = plan["treatments"][0]["start"]
    assert start["ranks"] == 2
    words = start["command"]
    assert words[words.index("reframe_tests.timed") + 1 :] == [
        "1",
        "x",
        "last",
        "higher",
        "MB/s",
        "mpiexec",
        "-n",
        "2",
        "./solver",
        "an input",
    ]
    longer = plan["treatments"][0]["longer"]
    times = [
        longer_start["command"][words.index("reframe_tests.timed") + 1] for longer_start in longer
    ]
    assert times == ["2", "4", "8", "16", "32", "64"]


def test_a_check_without_a_command_is_skipped_with_a_line_that_names_the_variable(
    tmp_path: Path,
) -> None:
    output = succeeded(reframe(tmp_path, "localhost", "command", "-r", "-p", "wheels"))
    (line,) = [line for line in output.splitlines() if "SKIP" in line]
    assert "'command'" in line
    assert "1 skipped" in output


@needs("ucx")
@pytest.mark.slow
def test_a_block_without_a_warm_up_ends_if_its_first_run_is_too_short(tmp_path: Path) -> None:
    """A writer of ucx reports once a second, and two reports must fit into a run of `true`."""
    variables = settings(warmups=0, pairs=1, arms="off,aa,on", injector="ucx", **VARIABLES)
    done = reframe(tmp_path, "localhost", "command", "-r", "-p", "wheels", settings=variables)
    assert done.returncode == 1
    assert re.search(r"run_too_short: a run takes 0\.\d+ s, but 2 rows .* warm-up run", done.stdout)
    samples = samples_of(next(tmp_path.glob("stage/*/*/*/command/nimc")), "command")
    # Under load, a first run with writes may be rejected and repeated.
    assert {(sample["pair"], sample["position"]) for sample in samples} == {(0, 0)}
    assert samples[-1]["elapsed_s"] < 2
