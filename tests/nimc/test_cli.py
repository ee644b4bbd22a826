"""Ends of commands: each prints at most one line of error, and has the documented exit code.

Completion, help and options of all commands are tested as well.
"""

import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete
from polars.exceptions import PanicException

from nimc.campaign.plan import Lengths
from nimc.cli import main
from nimc.cli.options import CampaignPath
from records.checkout import ROOT, python_main
from records.commands import command as printed_command
from records.errors import InputError, MachineError
from records.interrupts import Stopped
from tests.commands import Command, commands
from tests.in_process import call

NIMC = python_main("nimc.cli.main")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
DEBUG_ADVICE = f"to see where: {printed_command('--debug', 'writers')}"


@pytest.fixture
def ending(
    monkeypatch: pytest.MonkeyPatch, command: Command
) -> Callable[[BaseException, int], str]:
    """Returns a function that runs a command which raises an error, and returns its error output.

    The exit status of the command must be the given one.
    """

    def end(error: BaseException, code: int, *options: str) -> str:
        @click.command()
        def raising() -> None:
            raise error

        monkeypatch.setattr(main.cli, "get_command", lambda *_: raising)
        command(*options, "writers", code=code)
        return command.err

    return end


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (
            ZeroDivisionError("x\ny"),
            3,
            f"failed unexpectedly: ZeroDivisionError: x y; {DEBUG_ADVICE}",
        ),
        (PermissionError(13, "Permission denied", b"/a/\xff"), 3, "/a/\\udcff: Permission denied"),
        (KeyboardInterrupt(), 130, "stopped by SIGINT"),
        (Stopped(signal.SIGHUP), 129, "stopped by SIGHUP"),
        (Stopped(signal.SIGXCPU), 152, "stopped by SIGXCPU"),
        (PanicException("x"), 3, f"failed unexpectedly: PanicException: x; {DEBUG_ADVICE}"),
        (InputError(f"c: {'9' * 5000};"), 2, f"c: {'9' * 497} ... {'9' * 499};"),
    ],
)
def test_a_failure_is_one_line(ending, error, code, line):
    assert ending(error, code).lstrip() == f"nimc: {line}\n"


def test_an_exit_keeps_its_status(ending):
    ends = ((None, 0), (7, 7), ("x", 3))
    assert [ending(SystemExit(end), code) for end, code in ends] == [""] * 3


def test_other_users_cannot_write_to_files_that_a_command_makes(command):
    before = os.umask(0)
    for mask, becomes in ((0, 0o022), (0o002, 0o022), (0o077, 0o077)):
        os.umask(mask)
        command("writers")
        assert os.umask(before) == becomes


@pytest.mark.slow
def test_too_little_address_space_is_one_line():
    """Without this check, libraries end the process with SIGABRT, or an import fails."""
    plan = shlex.join(python_main("nimc.cli.main", "plan", "quick", "--machine", "localhost"))
    least = max(2048, 1536 + 10 * os.cpu_count())
    refusal = f"nimc: ulimit -v: 683 MiB of address space; needed: from {least} MiB\n"
    for limit_kib, code, error in ((700_000, 3, refusal), (4 << 20, 0, "")):
        limited = ["sh", "-c", f"ulimit -v {limit_kib}; {plan}"]
        done = subprocess.run(limited, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (code, error)


def test_hosts_of_many_threads_need_more_address_space():
    """Each hardware thread needs a stack and an arena.

    The requirement is 1.5 GiB and 10 MiB a thread, and at least 2 GiB.
    """
    main.require_memory(2048 << 20, 51)
    main.require_memory(resource.RLIM_INFINITY, 1024)
    with pytest.raises(MachineError, match=r"2048 MiB of address space; needed: from 2816 MiB"):
        main.require_memory(2048 << 20, 128)


def test_debug_shows_where_it_failed(ending):
    text = ending(ZeroDivisionError("x"), 3, "--debug")
    assert text.startswith("Traceback")
    assert "in raising" in text


@pytest.mark.parametrize("options", [["writers"], ["plan", "quik"]])
def test_a_command_whose_output_nobody_reads_ends_as_after_sigpipe(options):
    """The output is a table, or the error line for an unknown campaign."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*NIMC, *options], stdout=writer, stderr=writer, env=ENVIRONMENT)
    os.close(writer)
    assert done.returncode == 141


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ('"$@" > /dev/full', "No space left on device"),
        ('mkdir gone && cd gone && rmdir ../gone && "$@"', "the current folder no longer exists"),
    ],
)
def test_a_full_output_and_a_missing_current_folder_are_failures_in_one_line(
    tmp_path, script, line
):
    words = ["sh", "-c", script, "sh", *NIMC, "writers"]
    done = subprocess.run(words, env=ENVIRONMENT, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 3
    assert line in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_figures_are_drawn_with_the_backend_of_a_notebook(tmp_path):
    notebook = {**ENVIRONMENT, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    words = ["model", "plot", "--platform", "henri", "-o", str(tmp_path / "page.html")]
    done = subprocess.run([*NIMC, *words], env=notebook, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "<svg" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("arguments", [["doctor"], ["plan", "quick"]])
def test_a_user_without_a_home_can_look_at_a_machine(arguments):
    homeless = {"HOME": "/dev/null", "XDG_CACHE_HOME": ""}
    _, out, err = call([*arguments, "--machine", "localhost"], environment=homeless)
    assert err == ""
    assert "localhost" in out


def test_a_campaign_takes_a_line_of_eighty_columns(command, monkeypatch):
    cannot = InputError("another machine")
    monkeypatch.setattr("nimc.cli.campaigns.load_request", lambda *_: (_ for _ in ()).throw(cannot))
    machine, header, *lines = command("campaigns", "--machine", "localhost").splitlines()
    assert (machine, header.split()[0]) == ("on localhost", "campaign")
    campaigns = sorted((ROOT / "campaigns").glob("*.yaml"))
    assert max(map(len, lines[: len(campaigns)])) <= 80
    assert [line for line in lines if line.startswith("cannot run: ")] == [lines[len(campaigns)]]
    why = printed_command("plan", campaigns[0].stem, "--machine", "localhost")
    assert " ".join(lines[len(campaigns) :]).startswith(f"cannot run: `{why}`")


def test_a_title_is_printed_although_the_locale_lacks_its_characters(tmp_path):
    (tmp_path / "campaigns").mkdir()
    text = (ROOT / "campaigns/quick.yaml").read_text()
    title = re.sub(
        "^title: .*",
        "title: Gr\N{LATIN SMALL LETTER O WITH DIAERESIS} \N{OHM SIGN}",
        text,
        flags=re.M,
    )
    (tmp_path / "campaigns/quick.yaml").write_text(title, encoding="utf-8")
    code = (
        "import sys, pathlib, nimc.cli.campaigns as campaigns, nimc.cli.main as program\n"
        "campaigns.ROOT = pathlib.Path(sys.argv.pop(1))\n"
        "program.main()"
    )
    command = [sys.executable, "-c", code, str(tmp_path), "campaigns", "--machine", "localhost"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, check=False, capture_output=True, env=environment, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Gr\xf6 \\u2126" in done.stdout


@pytest.mark.parametrize("text", ["", "[quick]", "name: [", "name: quick\n"])
def test_an_invalid_campaign_is_listed_beside_the_others(command, tmp_path, monkeypatch, text):
    (tmp_path / "campaigns").mkdir()
    shutil.copy(ROOT / "campaigns/quick.yaml", tmp_path / "campaigns")
    (tmp_path / "campaigns/broken.yaml").write_text(text)
    monkeypatch.setattr("nimc.cli.campaigns.ROOT", tmp_path)
    broken, quick = command.json("campaigns", "--machine", "localhost")["campaigns"]
    assert broken["why"].startswith(str(tmp_path / "campaigns/broken.yaml"))
    assert (quick["campaign"], quick["why"]) == ("quick", "")


def test_campaigns_and_plan_print_the_same_duration_of_a_campaign_that_was_measured_before(
    command, tmp_path, monkeypatch
):
    """Its runs took 50 s each. So the expected duration is longer than without this knowledge."""
    (tmp_path / "campaigns").mkdir()
    shutil.copy(ROOT / "campaigns/quick.yaml", tmp_path / "campaigns")
    monkeypatch.setattr("nimc.cli.campaigns.ROOT", tmp_path)
    options = ("--machine", "localhost", "--results", tmp_path)

    def times() -> tuple[list[float], list[float]]:
        (row,) = command.json("campaigns", *options)["campaigns"]
        plan = command.json("plan", "quick", *options)
        names = ("duration_least_s", "duration_most_s")
        return [row[name] for name in names], [plan[name] for name in names]

    listed, planned = times()
    assert listed == planned
    lengths = Lengths("run", dict.fromkeys(("stream", "lammps"), 50.0))
    monkeypatch.setattr("nimc.run.folder.past_lengths", lambda *_: lengths)
    longer, planned = times()
    assert longer == planned
    assert longer[0] > 2 * listed[0]


@pytest.mark.parametrize(
    ("typed", "kind", "expected"),
    [
        ("simu", "plain", {"simulate"}),
        ("nights al", "plain", {"alarms"}),
        ("plan throt", "plain", {"throttling", "throttling_quick"}),
        ("plan quick --machine examp", "plain", {"example_slurm"}),
        ("run quick --qui", "plain", {"--quiet"}),
        ("report results/q", "file", {"results/q"}),
        ("compare a b", "file", {"b"}),
        ("plan ./x", "file", {"./x"}),
        ("run quick --case la", "plain", {"lammps"}),
        ("run none.yaml --case la", "plain", set()),
        ("minicluster up --fabric r", "plain", {"rxe"}),
        ("remedy show irq", "plain", {"irq_affinity"}),
        ("spack build prof", "plain", {"profiling"}),
        ("model predict --platform henri-s", "plain", {"henri-subnuma"}),
    ],
)
def test_the_shell_completes_commands_options_campaigns_machines_and_paths(typed, kind, expected):
    words = typed.split()
    completion = BashComplete(main.cli, {}, "nimc", "_NIMC_COMPLETE")
    completions = completion.get_completions(words[:-1], words[-1])
    assert {item.value for item in completions if item.type == kind} == expected


def parameters() -> list[click.Parameter]:
    return [parameter for _, command in commands() for parameter in command.params]


def test_options_are_spelt_in_one_way():
    """Each short option stands for the same long option in all commands."""
    short: dict[str, set[str]] = {}
    for parameter in parameters():
        long = [text for text in parameter.opts if text.startswith("--")]
        for text in parameter.opts:
            if text[:2] != "--" and long:
                short.setdefault(text, set()).update(long)
    assert short == {
        "-j": {"--jobs"}, "-o": {"--output"}, "-q": {"--quiet"}, "-v": {"--verbose"},
    }  # fmt: skip


@pytest.mark.parametrize("path", ["quick.yaml", "./quick", "mine/quick", "/dev/stdin"])
def test_a_plain_name_means_a_campaign_of_the_checkout_and_a_path_means_a_file(path):
    named = CampaignPath()
    assert named.convert("quick", None, None) == ROOT / "campaigns" / "quick.yaml"
    assert named.convert(path, None, None) == Path(path)


def _leaf(words: list[str]) -> click.Command:
    """Return the command that a command line names, and remove its name from `words`."""
    leaf = main.cli.get_command(click.Context(main.cli), words.pop(0))
    assert leaf is not None
    return leaf.commands[words.pop(0)] if isinstance(leaf, click.Group) else leaf


EXAMPLES = {
    f"{name} {under}".rstrip(): words
    for name, row in main.COMMANDS.items()
    for under, words in row.examples.items()
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_help_of_every_command_ends_with_an_example_that_parses(command, name):
    example = f"{name} {EXAMPLES[name]}".rstrip()
    help_text = " ".join(command(*name.split(), "--help").split())
    assert help_text.endswith(f" Example: {printed_command()} {example} {main.EXIT_CODES}")
    words = shlex.split(example)
    leaf = _leaf(words)
    values, rest, _ = leaf.make_parser(click.Context(leaf)).parse_args(args=words)
    needed = {param.name for param in leaf.params if param.required}
    assert (rest, {name for name in needed if values.get(name) in (None, ())}) == ([], set())


@pytest.mark.parametrize("name", EXAMPLES)
def test_help_is_in_words_without_names_of_the_code(command, name):
    """Underscores are in names of programs, and in those of folders only."""
    help_text, _, _ = command(*name.split(), "--help").partition("Example:")
    names = {*re.findall(r"(?<![/\w])[a-z]+(?:_[a-z]+)+(?![/\w])", help_text)}
    assert names <= {"mpi_put", "node_exporter"}


def test_help_has_every_command_in_its_group_with_an_example_that_parses(command):
    help_text = command("--help")
    titles = [
        f"{title}, such as '{printed_command(*example.split())}':"
        for title, example in main.GROUPS.items()
    ]
    parts = re.split("|".join(map(re.escape, titles)), help_text)
    for part, (title, example) in zip(parts[1:], main.GROUPS.items(), strict=True):
        group_commands = {name for name, row in main.COMMANDS.items() if row.group == title}
        assert set(re.findall(r"^  ([\w-]+)  ", part, re.MULTILINE)) == group_commands
        name, *words = shlex.split(example)
        assert name in group_commands
        leaf = _leaf([name, *words])
        options = {word for param in leaf.params for word in (*param.opts, *param.secondary_opts)}
        assert {word for word in words if word.startswith("-")} <= options
    assert list(main.GROUPS) == ["Set up", "Measure", "Read", "Operate", "Share"]
