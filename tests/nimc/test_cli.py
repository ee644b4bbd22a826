"""Every way in which a command may end: one line at most, and the documented exit code."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from nimc.base.checkout import ROOT
from nimc.base.errors import InputError
from nimc.cli import main
from nimc.cli.options import CampaignPath
from tests.analysis.synthetic import STREAM, samples, write_run
from tests.nimc.conftest import Command

NIMC = [sys.executable, "-c", "from nimc.cli.main import main; main()"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def ending(
    monkeypatch: pytest.MonkeyPatch, command: Command
) -> Callable[[BaseException, int], str]:
    """What a command that raises this prints as its error; its exit status must be the number."""

    def end(error: BaseException, code: int, *options: str) -> str:
        @click.command()
        def raising() -> None:
            raise error

        monkeypatch.setattr(main._Commands, "get_command", lambda *_: raising)
        command(*options, "writers", code=code)
        return command.err

    return end


def test_what_nobody_foresaw_is_a_failure_of_the_tool_in_one_line(ending) -> None:
    line = ending(ZeroDivisionError("x\ny"), 3)
    assert line.startswith("nimc: failed unexpectedly: ZeroDivisionError: x y ")
    assert line.count("\n") == 1


def test_a_long_value_is_cut(ending) -> None:
    line = ending(InputError(f"c.csv: n: not {'9' * 5000}; allowed: 1"), 2)
    assert line.startswith("nimc: c.csv: n: not 99")
    assert line.endswith("99; allowed: 1\n")
    assert len(line) == len("nimc: ") + 1000 + len(" ... ") + 1


def test_debug_shows_where_it_failed(ending) -> None:
    text = ending(ZeroDivisionError("x"), 3, "--debug")
    assert text.startswith("Traceback")
    assert "in raising" in text


def test_a_file_is_named(ending) -> None:
    line = ending(PermissionError(13, "Permission denied", b"/a/\xff"), 3)
    assert line == "nimc: /a/\\udcff: Permission denied\n"


def test_ctrl_c_is_130_and_a_line(ending) -> None:
    assert ending(KeyboardInterrupt(), 130).lstrip() == "nimc: stopped by SIGINT\n"


def test_words_of_the_command_line_are_shown_without_control_characters(command: Command) -> None:
    command("writers", "a\x1b[2J", "b\udccc", code=2)
    assert "unexpected extra arguments" in command.err
    assert all(line.isprintable() for line in command.err.split("\n"))


@pytest.mark.parametrize("options", [["writers"], ["--help"], ["plan", "quick", "--machine", "x"]])
def test_a_reader_that_is_gone_is_no_failure(options: list[str]) -> None:
    """Neither the error line of an unknown machine nor a table is read by anybody."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*NIMC, *options], stdout=writer, stderr=writer, env=ENVIRONMENT, check=False
    )
    os.close(writer)
    assert done.returncode == 141


def test_a_full_disk_behind_standard_output_is_a_failure() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*NIMC, "writers"], stdout=full, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False
        )
    assert done.returncode == 3
    assert b"No space left on device" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_a_folder_that_was_removed_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'cd {gone} && rmdir {gone} && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *NIMC, "writers"],
        env=ENVIRONMENT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr == "nimc: the current folder no longer exists; change to another\n"


def test_a_report_is_drawn_with_the_backend_of_a_notebook(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", samples(STREAM, pairs=6))
    environment = {**ENVIRONMENT, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    done = subprocess.run(
        [*NIMC, "report", str(run)], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "<svg" in (run / "report" / "report.html").read_text()


@pytest.mark.parametrize(
    "arguments", [["doctor", "--machine", "localhost"], ["plan", "quick", "--machine", "localhost"]]
)
def test_a_user_without_a_home_can_look_at_a_machine(arguments: list[str]) -> None:
    environment = {**ENVIRONMENT, "HOME": "/dev/null"}
    environment.pop("XDG_CACHE_HOME", None)
    done = subprocess.run(
        [*NIMC, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert "localhost" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["writers", "--nodes", "1" + "0" * 400],
        ["simulate", "--worst", "2", "--ranks", "1" + "0" * 400],
        ["spack", "info", "--machine", "../.."],
        ["doctor", "--machine", "../site/localhost"],
        ["plan", "quick", "--machine", "../site/localhost"],
        ["plan", "/dev/zero", "--machine", "localhost"],
        ["model", "fit", "/dev/zero"],
        ["model", "fit", "x" * 5000],
        ["plan", "a\udcffb", "--machine", "localhost"],
    ],
)
def test_absurd_input_is_one_line_and_code_two(arguments: list[str], command: Command) -> None:
    command(*arguments, code=2)
    assert command.err.startswith("nimc: ")
    assert command.err.count("\n") == 1
    assert "unexpectedly" not in command.err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("wide.csv", "a,b\n" + "x" * 200_000 + ",2\n"),
        ("deep.json", "[" * 100_000),
        ("long.json", '{"schema": ' + "9" * 5000 + "}"),
    ],
)
def test_measurements_that_no_parser_takes_are_named(
    tmp_path: Path, command: Command, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    command("model", "fit", tmp_path / name, code=2)
    assert command.err.startswith(f"nimc: {tmp_path / name}: ")
    assert command.err.count("\n") == 1


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("nimc sweep", {"sweep-nodes"}),
        ("nimc nightly sta", {"status"}),
        ("nimc plan throt", {"throttling", "throttling_quick"}),
        ("nimc plan quick --machine examp", {"example_slurm"}),
        ("nimc run quick --qui", {"--quiet"}),
    ],
)
def test_the_shell_completes_commands_options_campaigns_and_machines(
    typed: str, expected: set[str]
) -> None:
    words = typed.split()
    completion = BashComplete(main.cli, {}, "nimc", "_NIMC_COMPLETE")
    found = completion.get_completions(words[1:-1], words[-1])
    assert {item.value for item in found if item.type == "plain"} == expected


@pytest.mark.parametrize("typed", ["nimc report results/q", "nimc compare a b", "nimc plan ./x"])
def test_the_shell_completes_paths(typed: str) -> None:
    words = typed.split()
    completion = BashComplete(main.cli, {}, "nimc", "_NIMC_COMPLETE")
    found = completion.get_completions(words[1:-1], words[-1])
    assert [(item.type, item.value) for item in found] == [("file", words[-1])]


def test_options_are_spelt_in_one_way() -> None:
    """Where to write is `--output`, how to print `--json` and `--csv`, how much `-q` and `-v`."""
    short: dict[str, set[str]] = {}
    for name in main.COMMANDS:
        command = main.cli.get_command(click.Context(main.cli), name)
        for each in command.commands.values() if isinstance(command, click.Group) else [command]:
            for parameter in each.params:
                long = [text for text in parameter.opts if text.startswith("--")]
                for text in parameter.opts:
                    if text[:2] != "--" and long:
                        short.setdefault(text, set()).update(long)
    assert short == {
        "-j": {"--jobs"}, "-o": {"--output"}, "-q": {"--quiet"}, "-v": {"--verbose"},
    }  # fmt: skip


def path_of(given: str) -> Path:
    return CampaignPath().convert(given, None, None)


def test_a_name_is_a_campaign_of_the_checkout():
    assert path_of("quick") == ROOT / "campaigns" / "quick.yaml"


@pytest.mark.parametrize("given", ["quick.yaml", "./quick", "mine/quick", "/dev/stdin"])
def test_a_path_stays_a_path(given):
    assert path_of(given) == Path(given)


def test_a_wrong_name_is_answered_with_the_nearest():
    with pytest.raises(
        InputError, match=r"^unknown campaign 'quik', did you mean 'quick'\?; .*numa"
    ):
        path_of("quik")
