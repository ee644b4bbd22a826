"""Invalid command lines are refused with one line that names the wrong word, and exit code 2.

The path of a RUN may not exist, or name a pipe that would be read without end.
"""

import os
import shlex
import subprocess

import pytest

from nimc.nights.summary import make_path
from nimc.run.session import NIMC_COMMAND
from records.commands import command as printed_command
from tests.analysis.history.made import made_run
from tests.analysis.report.tables import add_table
from tests.captures import RUN_QUICK
from tests.fuzz.target import limited
from tests.nimc.nights.made import SUMMARY, summary
from tests.nimc.nimc_without_figures import render

REFUSED = [
    ("plan quik", "unknown campaign 'quik', did you mean 'quick'?; "),
    ("plan quick.yaml", "quick.yaml: No such file or directory, did you mean 'quick'?"),
    ("run campaigns/quik", "quik: No such file or directory, did you mean 'quick'?"),
    ("run ./nothing", "nothing: No such file or directory; allowed: a file, or one of cache_or_"),
    ("plan quick --machine ../site/localhost", ""),
    ("--machine m run quick --fresh", "--machine: found before the command; allowed: after it: `"),
    ("--debug --machine m run quick", "nimc --debug run --machine m quick`"),
    ("plan /dev/zero --machine localhost", ""),
    ("plan a\udcffb --machine localhost", ""),
    ("campaigns --machine nowhere", "machine 'nowhere': site/nowhere.yaml not found; known mach"),
    ("spack info --machine ../..", ""),
    ("spack setup --machine nowhere", "machine 'nowhere': neither site/nowhere.yaml nor configs/"),
    ("spack info nothing --machine localhost", "environment 'nothing': allowed are hpccg, "),
    ("spack build --machine localhost", "STACK: name at least one of "),
    ("doctor --machine localhost --wait 1min", "--wait: has no effect without --in-job"),
    ("doctor --machine localhost --results x", "--results: has no effect without --in-job"),
    (
        "remedy show ddio_ways --part unit --json",
        "--json: cannot be combined with --part; allowed: --set",
    ),
    ("remedy show dido", "dido: no such remedy; allowed: irq_affinity, ddio_ways"),
    ("model plot --platform henri -o ", "--output: '' found; allowed: a path"),
    ("model plot --platform henri -o x --kernel triad", "--kernel: has no effect without --sweep"),
    ("report ", "'' found; allowed: the path of a run or a file"),
    (
        f"pack {RUN_QUICK} --author ",
        "--author: '' found; allowed: 'Family, Given', or an instituti",
    ),
    *(
        (f"pack {RUN_QUICK} -o {name}", f"{name} found; allowed: a name that ends with .zip")
        for name in ("x.tar.gz", "x")
    ),
    (f"verify {RUN_QUICK} --allowed-signers /dev/null", " is not signed; allowed: crates (.zip)"),
    ("nights list --results none", "/none: there is no such folder of runs; --results names anot"),
    ("runs --results ", "--results: '' found; allowed: a folder"),
    ("run quick --results /dev/null", "--results: '/dev/null' found; allowed: a folder"),
    ("nights list --results /dev/null", "--results: '/dev/null' found; allowed: a folder"),
    *(
        (f"{words} --results {RUN_QUICK}", f"--results: '{RUN_QUICK}' is a run; allowed: the fol")
        for words in ("run quick", "nights alarms", "reproduce x.zip")
    ),
    ("model predict", "give --platform NAME or --model FILE"),
    ("model predict --platform nowhere", "--platform: nowhere found; allowed: billy"),
    (
        "model predict --platform henri --comp-node 7",
        "--comp-node 7: henri has NUMA nodes 0 to 1",
    ),
    ("model predict --model none.json", "none.json: does not exist"),
    (f"model fit {'x' * 5000}", ""),
    ("writers --paper --ranks 64", "--ranks: cannot be combined with --paper"),
    ("writers --ranks 0", "ranks: 0 found; allowed: 1 or more"),
    (f"writers --ranks 1{'0' * 400}", ""),
    ("writers --mtti 0s", "mtti: 0 s is not a duration"),
    ("writers --write=", "--write"),
    ("simulate", "--worst: missing"),
    ("simulate --worst 2 --writers x%", "--writers: 'x%' is not a share"),
    ("simulate --worst 2 --writers -1%", "--writers: '-1%' is not a share"),
    ("simulate --worst 2 --writers nan%", "--writers: 'nan%' is not a share"),
    ("simulate --worst 2 --writers some", "--writers: 'some' is not a count"),
    ("simulate --worst 2 --ranks 100", "ranks: 100 do not fill nodes of 16"),
    ("simulate --worst 2 --ranks 64 --writers 5", "--writers: 5 on 4 nodes"),
    ("simulate --worst nan", "--worst: nan found; allowed: a number from 1"),
    ("simulate --worst 0.5", "--worst: 0.5 found"),
    ("simulate --worst inf", "--worst: inf found"),
    ("simulate --paper --worst 2", "--worst: cannot be combined with --paper; allowed: --json"),
    *(
        (f"advise --traffic-share {share} x", "--traffic-share")
        for share in ("0", "1.1", "nan", "101%", "x")
    ),
]


@pytest.mark.parametrize(("words", "reason"), REFUSED)
def test_a_refusal_is_one_line_with_its_reason(command, words, reason):
    line = command.refused(*words.split(" "))
    assert reason in line
    assert "unexpectedly" not in line


@pytest.mark.parametrize(
    "words",
    [
        "run quick {}",
        "measure {} -- true",
        "inject --for 10s {}",
        "doctor --in-job {}",
        "nights run quick {}",
    ],
)
def test_a_results_folder_that_cannot_be_written_is_named(command, tmp_path, monkeypatch, words):
    """Tests may run as root, who may write anywhere."""
    monkeypatch.setattr("os.access", lambda path, _mode: path not in (tmp_path, f"{tmp_path}"))
    results = tmp_path / "results"
    line = command.refused(*words.format(f"--machine localhost --results {results}").split())
    assert line == f"--results: '{results}' found; allowed: a folder that you may write to"
    assert not results.exists()


def test_the_refusal_of_a_folder_of_runs_names_one_of_its_runs(command, tmp_path):
    made_run(tmp_path / "monday")
    line = command.refused("report", tmp_path)
    assert line.endswith(f"(no run.json); it holds runs, such as {tmp_path / 'monday'}")


@pytest.mark.parametrize(
    ("words", "corrected"),
    [
        ("--machine m run quick --fresh", "run --machine m quick --fresh"),
        ("--results x nights list", "nights list --results x"),
        ("nights --machine run run quick", "nights run --machine run quick"),
        ("--machine m measure sleep 2", "measure --machine m sleep 2"),
    ],
)
def test_options_before_a_command_are_shown_after_it(command, words, corrected):
    assert command.refused(*words.split()).endswith(f": `{printed_command(*corrected.split())}`")


def test_the_name_of_a_file_beside_this_folder_is_suggested(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").touch()
    line = command.refused("plan", "mine", "--machine", "localhost")
    assert line.startswith("unknown campaign 'mine', did you mean 'mine.yaml'?")


def test_a_folder_without_runs_and_a_way_to_another_are_named(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    words = " ".join(command("runs").split())
    assert words.startswith(f"no runs in {tmp_path / 'results'}; in another folder: `")
    assert words.endswith("runs --results FOLDER`")


def test_the_refusal_of_an_unknown_machine_says_how_a_cluster_gets_files(command):
    init = printed_command("init", "NAME")
    for words in ("plan quick --machine nowhere", "spack setup --machine nowhere"):
        assert command.refused(*words.split()).endswith(f"; for a new cluster: `{init}`")


def test_alarms_of_an_unknown_machine_are_refused(command, tmp_path, monkeypatch):
    monkeypatch.setattr("analysis.report.page.render", render)
    results = ("--results", tmp_path)
    assert command("nights", "alarms", *results, "--machine", "m1").startswith("no nights: ")
    path = make_path(tmp_path, SUMMARY.campaign, "m1", SUMMARY.night)
    path.write_text(summary(finished_s=None).text)
    for machine, begin in (("m1", "1 night, "), ("m2", "no nights: ")):
        assert command("nights", "alarms", *results, "--machine", machine).startswith(begin)
    command("report", made_run(tmp_path / "monday"))
    line = command.refused("nights", "alarms", *results, "--machine", "m1")
    assert line == "--machine: 'm1' found; allowed, as these have reports: m"
    command("nights", "alarms", *results, "--machine", "m")


def test_the_refusal_of_an_unknown_command_suggests_a_similar_one(command):
    command("paln", code=2)
    assert command.err.endswith("no such command 'paln', did you mean 'plan'?\n")


def test_control_characters_of_a_command_line_are_not_printed(command):
    command("writers", "a\x1b[2J", "b\udccc", code=2)
    assert "unexpected extra arguments" in command.err
    assert all(line.isprintable() for line in command.err.split("\n"))


def test_runs_lists_a_run_that_another_user_may_have_made(tmp_path, command):
    made_run(tmp_path / "monday").chmod(0o777)
    (row,) = command.json("runs", "--results", tmp_path)["runs"]
    assert row["state"] == "finished"
    assert row["samples"] > 0
    os.mkfifo(tmp_path / "monday" / "samples" / "pipe.jsonl")
    with limited(60.0, 60.0, TimeoutError("reads without end")):
        (row,) = command.json("runs", "--results", tmp_path)["runs"]
    assert row["state"].startswith("unreadable: ")
    assert row["state"].endswith("pipe.jsonl: neither a file nor a folder")


@pytest.mark.slow
def test_an_unreadable_file_is_named_and_does_not_hide_other_runs(tmp_path):
    """Root could read every file. So the commands run in a user namespace, where root cannot."""
    (table := add_table(made_run(tmp_path / "monday"))).parent.chmod(0)
    (samples := made_run(tmp_path / "tuesday") / "samples").chmod(0)
    add_table(made_run(tmp_path / "wednesday", day=2))
    (secret := tmp_path / "secret").touch(mode=0)
    nimc = shlex.join(NIMC_COMMAND)
    script = f"""
        {nimc} report tuesday; echo status $?
        {nimc} model fit secret; echo status $?
        {nimc} runs --results .; echo status $?
        {nimc} nights alarms -v --results .; echo status $?
    """
    apart = ["unshare", "--user"] if os.geteuid() == 0 else []
    outcome = subprocess.run(
        [*apart, "sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    for path in (table.parent, samples, secret):
        path.chmod(0o700)
    if "unshare" in outcome.stderr:
        pytest.skip(f"no user namespace of one's own here: {outcome.stderr.strip()}")
    denied = ["nimc: tuesday/samples: Permission denied", "nimc: secret: Permission denied"]
    assert outcome.stderr.splitlines() == denied
    printed = outcome.stdout.splitlines()
    statuses = [line for line in printed if line.startswith("status")]
    assert statuses == ["status 2", "status 2", "status 0", "status 0"]
    assert "tuesday: unreadable: tuesday/samples: Permission denied" in printed
    assert any(line.startswith("m melt off fom") for line in printed)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("loop", "loop: Too many levels of symbolic links"),
        ("none", "none: does not exist"),
        ("empty", "empty: not a run folder (no run.json)"),
        ("page.html", "page.html: not a run folder (no run.json)"),
        ("piped", "piped/samples/x.jsonl: neither a file nor a folder"),
        ("headless", "headless/run.json: neither a file nor a folder"),
        ("a\udcffb", "a\\udcffb: does not exist"),
    ],
)
def test_a_path_that_is_no_run_is_named(tmp_path, monkeypatch, command, run, expected):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "empty").mkdir()
    (tmp_path / "page.html").touch()
    (tmp_path / "piped/samples").mkdir(parents=True)
    (tmp_path / "piped/run.json").write_text("{}")
    os.mkfifo(tmp_path / "piped/samples/x.jsonl")
    (tmp_path / "headless").mkdir()
    os.mkfifo(tmp_path / "headless/run.json")
    monkeypatch.chdir(tmp_path)
    with limited(60.0, 60.0, TimeoutError("reads without end")):
        line = command.refused("report", run, run)
    assert line.replace(f"{tmp_path}/", "") == expected
