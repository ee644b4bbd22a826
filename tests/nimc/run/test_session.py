"""How child processes are stopped, and what a signal does at any time."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from nimc.campaign.plan import folder_options
from nimc.run import session
from nimc.run.runner import CampaignRunner, Failure
from nimc.run.session import stop_child
from records import processes
from records.checkout import python_code
from records.interrupts import Interrupts, Stopped, exit_when_stopped, stopped_at_once

#: Code of a process that ignores SIGTERM, prints a line then, and runs longer than any test.
_DEAF = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('deaf', flush=True); time.sleep(300)"
)


@pytest.mark.parametrize(("signals", "grace_s"), [(2, 60.0), (1, 0.1)])
def test_a_process_that_ignores_sigterm_is_killed_at_a_second_signal_or_after_a_time(
    tmp_path, monkeypatch, signals, grace_s
):
    monkeypatch.setattr(session, "GRACE_S", grace_s)
    log = tmp_path / "log"
    signalled_s: list[float] = []

    def ask() -> None:
        """Send all signals as soon as the child ignores SIGTERM. The session calls this often."""
        if not signalled_s and log.read_bytes():
            signalled_s.append(time.monotonic())
            for _ in range(signals):
                os.kill(os.getpid(), signal.SIGTERM)

    with Interrupts() as interrupts, pytest.raises(Stopped, match="SIGTERM"):
        session.run_session([sys.executable, "-c", _DEAF], tmp_path, log, interrupts, ask)
    assert time.monotonic() - signalled_s[0] < 40
    assert session.processes_of(tmp_path) == []


def test_other_runs_of_the_user_on_this_host_are_named(monkeypatch):
    mine = "quick-here-1"
    runs = {
        1: mine,
        2: "tiny-here-2",
        3: "tiny-here-2",
        4: ".nimc-inspection-x",
        5: ".nimc-inspection-y",
    }
    runs[6] = ".nimc-inject-z"
    monkeypatch.setattr(
        session, "run_processes", lambda: [(n, f"/r/{name}") for n, name in runs.items()]
    )
    expected = ["tiny-here-2", "an inspection of nodes", "an injection"]
    assert session.concurrent_runs(Path(f"/r/{mine}")) == expected


def start(program: str) -> subprocess.Popen[bytes]:
    """Start a Python program, and wait until it prints that it is ready for signals."""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    with child.stdout:
        assert child.stdout.readline()
    return child


def test_children_get_sigterm_and_are_killed_if_they_do_not_end():
    for grace_s, hurried in ((0.1, False), (60.0, True)):
        with start(_DEAF) as left:
            processes.end_descendants(grace_s, lambda hurried=hurried: hurried)
        assert left.returncode == -signal.SIGKILL
    ended = subprocess.Popen(["true"])
    ended.wait()
    children = [ended, start(_DEAF), start("import time; print(flush=True); time.sleep(300)")]
    stop_child(children[2])
    for child in children:
        stop_child(child, timeout_s=0.2)
    assert [child_process.returncode for child_process in children] == [
        0,
        -signal.SIGKILL,
        -signal.SIGTERM,
    ]


#: Code of a process that cleans up at the first SIGTERM, and ends by itself at the second one.
_ENDS_AT_SECOND_SIGTERM = (
    "import signal, time; signals = []\n"
    "def stop(*_):\n"
    "    signals.append(0)\n"
    "    if len(signals) == 2: raise SystemExit(7)\n"
    "signal.signal(signal.SIGTERM, stop); print(flush=True); time.sleep(300)"
)


def test_a_night_asks_its_run_a_second_time_before_it_kills_it():
    """A second signal ends the reading of outputs, which has no time limit."""
    child = start(_ENDS_AT_SECOND_SIGTERM)
    stop_child(child, timeout_s=1.0)
    assert child.returncode == 7


def _drop_the_exception_of_a_signal_and_continue(goes_on_s: float) -> None:
    with suppress(Stopped):
        os.kill(os.getpid(), signal.SIGHUP)
    until_s = time.monotonic() + goes_on_s
    while time.monotonic() < until_s:
        time.sleep(0.01)


@pytest.mark.parametrize("goes_on_s", [60, 0])
def test_the_dropped_exception_of_a_signal_is_raised_again_soon_or_at_the_end(goes_on_s):
    handlers = [signal.getsignal(signum) for signum in (signal.SIGHUP, signal.SIGALRM)]
    with pytest.raises(Stopped, match="SIGHUP"), stopped_at_once():
        _drop_the_exception_of_a_signal_and_continue(goes_on_s)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert [signal.getsignal(signum) for signum in (signal.SIGHUP, signal.SIGALRM)] == handlers


def test_signals_are_counted_and_the_first_decides():
    with Interrupts() as interrupts:
        subprocess.run(["true"], check=True)  # the end of a child is no reason to stop
        interrupts.check()
        for signum in (signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), signum)
        interrupts.wait(60)
        assert (interrupts.signum, interrupts.count) == (signal.SIGTERM, 2)
        with pytest.raises(Stopped, match="SIGTERM"):
            interrupts.check()


def test_a_stopped_command_exits_with_the_signals_status_and_prints_that_no_job_is_left(capsys):
    with pytest.raises(SystemExit) as end, exit_when_stopped():
        raise Stopped(signal.SIGTERM)
    assert end.value.code == 143  # 128 and the number of SIGTERM
    assert capsys.readouterr().err == "nimc: stopped by SIGTERM; no job is left\n"


def test_a_file_is_not_left_half_written(tmp_path):
    """The signal comes after the temporary file was written and before it is renamed."""
    code = (
        "import os, signal; from pathlib import Path; import click; from nimc.cli import main;"
        "from records.files import replace_text;"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGTERM);"
        "write = lambda: replace_text(Path('page'), 'half');"
        "main.cli = click.Command('x', callback=write); main.main()"
    )
    done = subprocess.run(python_code(code), capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr.strip()) == (143, "nimc: stopped by SIGTERM")
    assert list(tmp_path.iterdir()) == []


def test_a_signal_after_the_last_block_stops_the_campaign(nimc, monkeypatch):
    def run_all(_: CampaignRunner) -> list[Failure]:
        os.kill(os.getpid(), signal.SIGHUP)
        return []

    monkeypatch.setattr(CampaignRunner, "run_all", run_all)
    _, err = nimc.ended(code=129)
    assert "nimc: stopped by SIGHUP; no sample was taken; to resume: " in err
    assert nimc.header()["finished_s"] is None


@pytest.mark.slow
def test_neither_variables_nor_a_configuration_can_move_the_files_of_a_block(tmp_path, monkeypatch):
    """nimc finds jobs by their folder. Its sessions are not stored in ReFrame's own database."""
    check, config, log = (tmp_path / name for name in ("check.py", "config.py", "log"))
    check.write_text(
        "import reframe as rfm\nfrom reframe.utility.sanity import assert_true\n"
        "@rfm.simple_test\nclass Quick(rfm.RunOnlyRegressionTest):\n    executable = 'true'\n"
        "    valid_systems = valid_prog_environs = ['*']\n"
        "    @sanity_function\n    def ends(self):\n        return assert_true(True)\n"
    )
    partition = {"name": "p", "scheduler": "local", "launcher": "local", "environs": ["e"]}
    away = {f"{name}dir": str(tmp_path / f"set-{name}") for name in ("stage", "output")}
    settings = {
        "systems": [{"name": "s", "hostnames": [".*"], "partitions": [partition], **away}],
        "environments": [{"name": "e"}],
        "storage": [{"enable": True, "sqlite_db_file": str(tmp_path / "results.db")}],
    }
    config.write_text(f"site_configuration = {settings}\n")
    reframe = Path(sys.executable).with_name("reframe")
    argv = [str(reframe), "-C", str(config), "-c", str(check), "-r", "--keep-stage-files"]
    argv += [*folder_options(tmp_path / "out"), f"--report-file={tmp_path}/report.json"]
    for name in ("STAGE", "OUTPUT", "PERFLOG"):
        monkeypatch.setenv(f"RFM_{name}_DIR", str(tmp_path / f"set-{name}"))
    monkeypatch.setenv("RFM_SYSTEM", "other")
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # ReFrame leaves a log with this configuration
    with Interrupts() as interrupts:
        assert session.run_session(argv, tmp_path, log, interrupts, lambda: None) == 0
    assert list(tmp_path.glob("set-*")) == []
    assert list((tmp_path / "out" / "stage").rglob("rfm_job.sh"))
    assert not (tmp_path / "results.db").exists()
    monkeypatch.delenv("RFM_SYSTEM")
    subprocess.run(argv, check=True, capture_output=True, cwd=tmp_path)
    assert (tmp_path / "results.db").exists()


def test_processes_of_a_run_are_found_by_any_path_of_its_folder(tmp_path):
    (tmp_path / "real/run").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    environment = {**os.environ, session.RUN_VARIABLE: str(tmp_path / "real/run")}
    with subprocess.Popen(["sleep", "60"], env=environment) as process:
        try:
            for path in ("real/run", "link/run", "real/../link/run"):
                assert session.processes_of(tmp_path / path) == [process.pid]
                assert "run" not in session.concurrent_runs(tmp_path / path)
        finally:
            process.kill()
