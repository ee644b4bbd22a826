"""`nimc run` as a user sees it: files, output and processes after any end."""

import errno
import hashlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from nimc.run.session import NIMC_COMMAND, processes_of
from records import chain
from records.block_plan import BlockPlan
from records.commands import Shell
from records.order import run_seed
from tests.commands import CAMPAIGN, ROOT, Nimc, nimc_in
from tests.messages import assert_message
from tests.nimc import nimc_without_figures
from tests.nimc.documented import assert_documented
from tests.waiting import wait_until


def stopped(process: subprocess.Popen[str], *signals: signal.Signals) -> tuple[int, str]:
    """Send signals to a process; return its exit status and standard error."""
    for number, signum in enumerate(signals):
        time.sleep(0.3 if number else 0.0)
        process.send_signal(signum)
    _, err = process.communicate(timeout=300)
    return process.returncode, err


@dataclass(frozen=True)
class Finished:
    """The small campaign after a complete run in a separate process."""

    nimc: Nimc
    document: dict[str, Any]
    err: str


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    nimc = nimc_in(tmp_path_factory.mktemp("campaign"))
    process = nimc.start("--json", faults="child", command=NIMC_COMMAND)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return Finished(nimc, json.loads(out), err)


@pytest.mark.slow
def test_a_campaign_runs_once_and_prints_one_document(finished):
    document = finished.document
    assert_documented("run", document)
    assert (document["machine"], document["campaign"]) == ("localhost", "small")
    assert Path(document["run"]) == finished.nimc.the_run()
    assert "<svg" in Path(document["report"]).read_text()
    assert document["failures"] == []


def test_processes_that_reframe_left_are_ended(finished):
    assert leftovers(finished.nimc) == []


def test_a_result_has_the_figures_that_were_reported(finished):
    """The expected figures are those of the stand-in for ReFrame."""
    rows = {(row["case"], row["arm"]): row for row in finished.document["results"]}
    assert set(rows) == {("stream", "on"), ("stream", "aa")}
    row = rows["stream", "on"]
    assert (row["pairs"], row["rejected"], row["unit"]) == (6, 0, "B/s")
    assert (row["off_median"], row["on_median"]) == pytest.approx((1e10, 5e9))
    for name in ("slowdown", "slowdown_low", "slowdown_high"):
        assert row[name] == pytest.approx(2.0)
    assert (row["writer_rate_alone_b_s"], row["writer_rate_b_s"]) == pytest.approx((2e9, 1e9))
    for name in ("workload", "noise_floor_low", "noise_floor_high", "verdict", "rejections"):
        assert name in row


def test_the_header_of_a_finished_run_has_its_end_and_the_campaign(finished):
    header = finished.nimc.header()
    assert header["finished_s"] is not None
    assert header["campaign_text"] == CAMPAIGN


def test_the_head_of_the_chain_is_shown_if_there_are_samples(finished):
    head, report = finished.nimc.header()["head"], Path(finished.document["report"])
    assert finished.document["head"] == head
    assert head not in finished.err
    assert head in report.read_text()
    (results,) = json.loads(report.with_name("results.json").read_text())["runs"]
    assert results["head"] == head


def test_a_run_of_some_cases_is_not_resumed_by_the_whole_campaign(nimc):
    nimc.write_two_cases()
    out, _ = nimc.ended("--case", "lammps", "--json")
    part = json.loads(out)
    part_run = Path(part["run"])
    assert part["integrity_faults"] == []
    assert {row["case"] for row in part["results"]} == {"lammps"}
    header = json.loads((part_run / "run.json").read_text())
    (part_run / "run.json").write_text(json.dumps(header | {"finished_s": None}))
    out, err = nimc.ended("--json")
    assert_not_resumed(err, part_run, "workloads")
    whole = json.loads(out)
    assert Path(whole["run"]) != part_run
    assert {row["case"] for row in whole["results"]} == {"stream", "lammps"}
    assert {path.name for path in (part_run / "samples").iterdir()} == {"lammps.jsonl"}


def assert_not_resumed(err: str, run: Path, *parts: str) -> None:
    """Assert that a line says which parts of a campaign keep a run from being resumed."""
    (reason,) = re.findall(rf"does not resume {re.escape(str(run))}: (.*)", err)
    assert reason.partition(" ")[2] == ", ".join(parts)


def test_quiet_prints_only_the_results_in_80_columns(nimc):
    out, err = nimc.ended("--quiet")
    assert err == ""
    assert "baseline repeated: " not in out
    assert max(map(len, out.partition("\nsamples: ")[0].splitlines())) <= 80


def test_verbose_prints_each_run_of_a_new_run(nimc):
    nimc.ended("--quiet")
    out, err = nimc.ended("-v")
    assert "baseline repeated: " in out
    assert len(nimc.runs()) == 2  # a complete run is not continued
    run_lines = [line for line in err.splitlines() if "GB/s" in line]
    assert len(run_lines) == 6 * 3 + 1  # three arms in six pairs, and a warm-up
    assert "logs/stream/0/reframe.log" in err


FACTORS = """\
name: small
workloads:
  - {check: stream, set: {iterations: 10, warmups: 1}, expect: 1s}
factors: {rate: [0, 50%, full], reserved_cores: [0, 1]}
exclude: [{reserved_cores: 1, rate: 50%}, {arm: spin}]
pairs: {floor: 6, cap: 6}
"""
#: The treatments of `FACTORS` except the two baselines. Half the rate is excluded with a reserved
#: core.
PAIRED = {
    "on",
    "on@rate=50%",
    "aa",
    "on@reserved_cores=1",
    "aa@reserved_cores=1",
}


def test_treatments_of_factors_are_measured_and_resumed(nimc):
    nimc.write(FACTORS)
    _, err = nimc.ended("--json", faults="torn", code=3)  # killed after three of six pairs
    assert "0 of 43 runs" in err  # a warm-up, and six pairs of seven runs
    out, err = nimc.ended("--json")
    assert "resumes " in err
    rows = {row["arm"]: row for row in json.loads(out)["results"]}
    assert {name: row["pairs"] for name, row in rows.items()} == dict.fromkeys(PAIRED, 6)
    assert rows["on@reserved_cores=1"]["baseline"] == "off@reserved_cores=1"
    assert rows["on@rate=50%"]["factors"] == {"rate": "50%", "reserved_cores": 0}
    assert len(paired_samples(nimc, block=1)) == 3 * (2 + 5)


def paired_samples(nimc: Nimc, block: int) -> list[dict[str, Any]]:
    """Return STREAM's samples of a block, without warm-up runs."""
    samples = nimc.samples("stream")
    return [sample for sample in samples if sample["block"] == block and not sample["warmup"]]


@pytest.mark.slow
def test_a_finished_run_continues_with_more_pairs_and_never_with_fewer(nimc):
    nimc.write(FACTORS.replace("cap: 6", "cap: 6, precision: 0.1"))
    nimc.ended(faults="wide")
    before = nimc.header()
    out, err = nimc.ended("--json", "--pairs", "12", faults="wide")
    assert f"resumes {nimc.the_run()}" in err
    document = json.loads(out)
    assert document["integrity_faults"] == []  # chain and order of runs are valid
    assert {row["pairs"] for row in document["results"]} == {12}
    after = nimc.header()
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"pairs_raised", "finished_s", "head"}

    # Fewer pairs are refused, and a number without an interim analysis too. Nothing is changed.
    for number, allowed in (("8", "from 12"), ("10", "6, 8, 12, 16, 24,")):
        _, err = nimc.ended("--pairs", number, code=2)
        (line,) = err.splitlines()
        assert_message(line, "nimc: --pairs", number, allowed=allowed)
    assert nimc.header() == after

    # If the run has as many pairs already, none is added. Without the option, a new run begins.
    nimc.ended("--pairs", "12")
    assert (nimc.complete_pairs("stream"), nimc.header()["head"]) == (12, after["head"])
    nimc.ended()
    assert len(nimc.runs()) == 2


def test_pairs_may_set_a_lower_cap_for_a_new_run_than_the_campaign(nimc):
    nimc.write(CAMPAIGN.replace("cap: 6", "cap: 24, precision: 0.001"))
    nimc.ended("--pairs", "8", faults="faint")
    assert (nimc.complete_pairs("stream"), nimc.header()["pairs_cap"]) == (8, 8)


def test_a_level_that_the_machine_lacks_is_left_out_and_no_failure(nimc):
    nimc.write(f"{CAMPAIGN}factors: {{core_spec: [0, 1]}}\n")
    out, _ = nimc.ended("--json")
    document = json.loads(out)
    assert {row["case"] for row in document["results"]} == {"stream@core_spec=0"}
    assert [row["case"] for row in document["absent"]] == ["stream@core_spec=1"]
    assert document["failures"] == []


UNDECIDED = "name: small\nworkloads: [{check: stream, expect: 1s}]\narms: [off, on, spin, aa]\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pairs", "first_fake", "later_fake", "first_verdict"),
    [
        # Runs are 2 % slower, at a noise of 2.5 %.
        ("{floor: 6, cap: 6}", "faint", "faint", "inconclusive"),
        # Six pairs, of 2^6 exchanges, never show a difference from the control.
        ("{floor: 6, cap: 6}", "", "", "not above the control"),
        # Runs are rejected until as many pairs are rejected as the cap allows.
        ("{floor: 8, cap: 12}", "scarce", "", "too few pairs"),
    ],
)
def test_the_command_that_is_printed_reaches_a_verdict(
    nimc, pairs, first_fake, later_fake, first_verdict
):
    """The test runs the campaign, then the command after `Next:`, until there is a verdict."""
    nimc.write(f"{UNDECIDED}pairs: {pairs}\n")
    out, _ = nimc.ended(faults=first_fake)
    printed = " ".join(out.split())
    assert f"(stream: {first_verdict})" in printed
    verdict = "(stream: slower under emulated writes)"
    for _ in range(6):
        if verdict in printed:
            break
        (line,) = re.findall(r"Next: [^(]*`[^ ]*nimc ([^(`]*--pairs \d+)`", printed)
        status, out, err = nimc.typed(line.split(), nimc.folder, faults=later_fake)
        assert status == 0, err
        assert f"resumes {nimc.the_run()}" in err
        printed = " ".join(out.split())
    assert verdict in printed


def test_each_failing_case_is_reported_without_a_traceback(nimc):
    nimc.write_two_cases()
    _, err = nimc.ended(faults="die", code=3)
    messages = [line for line in err.splitlines() if "no such system" in line]
    assert [line.split(": ")[1] for line in messages] == ["stream", "lammps"]
    assert "Traceback" not in err
    assert nimc.header()["finished_s"] is None


@pytest.mark.slow
def test_a_run_without_samples_names_why_each_case_failed(nimc, command):
    nimc.write_two_cases()
    _, err = nimc.ended(faults="die", code=3)
    assert "no sample was taken; mend what failed, then try again: " in err.splitlines()[-1]
    (row,) = command.json("runs", "--results", nimc.results)["runs"]
    assert (row["state"], row["samples"]) == ("failed", 0)
    out = " ".join(command("report", nimc.the_run()).split())
    assert "no result: stream: ReFrame ended with status 1: ERROR: no such system" in out
    assert "no result: lammps: ReFrame ended with status 1: ERROR: no such system" in out
    page = (nimc.the_run() / "report" / "report.html").read_text()
    assert page.count("ERROR: no such system") >= 2
    nimc.ended()
    assert "no such system" not in command("report", nimc.the_run())
    (row,) = command.json("runs", "--results", nimc.results)["runs"]
    assert row["state"] == "finished"


def test_the_report_of_a_measured_case_names_why_another_failed(nimc, command):
    nimc.write_two_cases()
    nimc.ended(faults="no-lammps", code=3)
    out = " ".join(command("report", nimc.the_run()).split())
    assert "lammps: ReFrame ended with status 1: ERROR: no such system" in out
    assert "no result" not in out
    assert "Failed: lammps: ReFrame ended" in (nimc.the_run() / "report/report.html").read_text()


def test_a_changed_campaign_does_not_resume_a_run(nimc):
    nimc.write_two_cases()
    _, err = nimc.ended(faults="die", code=3)
    assert "does not resume" not in err
    run = nimc.the_run()
    nimc.write(CAMPAIGN.replace("cap: 6", "cap: 7"))
    _, err = nimc.ended(faults="die", code=3)
    assert_not_resumed(err, run, "pairs", "workloads")


def test_a_failed_case_is_tried_again_in_the_same_run_and_a_new_block(nimc):
    nimc.ended(faults="die", code=3)
    run = nimc.the_run()
    _, err = nimc.ended()
    assert f"nimc: resumes {run}" in err
    assert nimc.the_run() == run
    assert {sample["block"] for sample in nimc.samples("stream")} == {1}


@pytest.mark.slow
def test_rejected_runs_never_end_in_a_loop(nimc):
    _, err = nimc.ended(faults="reject", code=3)
    assert "stream: " in err
    assert "writer 0 wrote at 3 %" in err
    # The next session tries as often again. When writers reach their rate, the case is completed.
    rejected = len(nimc.samples("stream"))
    nimc.ended(faults="reject", code=3)
    assert len(nimc.samples("stream")) == 2 * rejected
    nimc.ended()
    assert nimc.complete_pairs("stream") == 6


def resume_command(nimc: Nimc) -> str:
    """Return the printed command, which omits `--results` for the default folder."""
    words = nimc.words()
    assert words[-2:] == ["--results", "results"]
    return Shell(nimc.folder).line(*words[:-2])


@pytest.fixture
def torn(nimc: Nimc) -> Nimc:
    """Returns the campaign after ReFrame was killed in the fourth pair, while it wrote a line."""
    _, err = nimc.ended(faults="torn", code=3)
    assert "SIGKILL" in err
    last = f"nimc: all samples are saved; mend what failed, then resume: {resume_command(nimc)}"
    assert err.splitlines()[-1] == last
    assert nimc.complete_pairs("stream") == 3
    return nimc


def test_an_incomplete_line_costs_one_sample_and_only_missing_pairs_are_run(torn):
    torn.ended()
    assert torn.complete_pairs("stream") == 6
    assert len(paired_samples(torn, block=1)) == 3 * 3


def test_a_resumed_run_keeps_its_seed(torn):
    header = torn.header()
    assert header["seed"] == run_seed(header["digest"], torn.the_run().name)
    torn.ended()
    assert {sample["seed"] for sample in torn.samples("stream")} == {header["seed"]}


def test_no_sample_is_added_to_a_file_with_an_invalid_line(torn):
    file = torn.the_run() / "samples/stream.jsonl"
    whole_lines = file.read_bytes().rpartition(b"\n")[0]
    file.write_bytes(whole_lines + b"\ngarbage\n")
    _, err = torn.ended(code=2)
    assert "--fresh" in err
    assert file.read_bytes() == whole_lines + b"\ngarbage\n"


def test_the_chain_is_continued_in_a_resumed_run(torn):
    """ReFrame's report has the head of the chain before each block, the results the last head."""
    out, err = torn.ended()
    run = torn.the_run()
    logs = [(run / f"logs/stream/{block}/reframe.log").read_text() for block in (0, 1)]
    heads = [re.search("--session-extras=nimc_head=([0-9a-f]{64})", log)[1] for log in logs]
    assert heads[1] in err
    last = torn.header()["head"]
    assert f"\nhead:    {last}\n" in out
    assert len({*heads, last}) == 3
    assert chain.walk_run(run).head == last


def test_a_block_without_a_pair_is_a_failure_of_its_case(nimc):
    _, err = nimc.ended("--fresh", faults="none", code=3)
    assert "nimc: starts " in err
    assert "nimc: stream: block 0 " in err


@pytest.mark.slow
def test_a_run_that_was_killed_at_any_moment_is_completed_without_duplicate_samples(
    nimc: Nimc,
) -> None:
    nimc.write_two_cases()
    moment = random.Random(1)

    def count_samples() -> int:
        """Return the number of complete lines. The next session removes an incomplete one."""
        return sum(file.read_bytes().count(b"\n") for file in nimc.results.rglob("*.jsonl"))

    def wait_for_samples(least: int, process: subprocess.Popen[str]) -> None:
        wait_until(lambda: count_samples() >= least, process=process)

    for _ in range(3):
        # The run cannot be complete before the last kill, since each start makes at most two pairs
        # of a case.
        least = count_samples() + moment.randint(0, 7)
        process = nimc.start(faults="slow,stuck")
        wait_for_samples(least, process)
        time.sleep(moment.uniform(0.0, 0.1))
        process.kill()
        process.communicate()
    nimc.ended()
    for case in ("stream", "lammps"):
        keys = [sample["key"] for sample in nimc.samples(case)]
        assert len(keys) == len(set(keys))
        assert nimc.complete_pairs(case) >= 6
        # Each kill costs at most the current pair.
        assert len(keys) <= 6 * 3 + 4 * (1 + 3)


@pytest.mark.parametrize(
    ("options", "status", "location", "values", "allowed"),
    [
        (["--machine", "nowhere"], 2, "machine 'nowhere'", ["site/nowhere.yaml"], ""),
        (["--results", "small.yaml/x"], 2, "--results", ["'small.yaml/x'"], "a folder"),
        (["--results", "/proc/none"], 3, "/proc/none", [], ""),
    ],
)
def test_a_wrong_machine_or_results_folder_is_reported_in_one_line(
    nimc, command, monkeypatch, options, status, location, values, allowed
):
    monkeypatch.chdir(nimc.folder)
    monkeypatch.setenv("NIMC_REFRAME", str(nimc.folder / "reframe"))
    words = ["--machine", "localhost", "--results", "results", *options]
    line = command.refused("run", "small.yaml", *words, code=status)
    assert_message(line, location, *values, allowed=allowed)
    assert (command.out, nimc.results.exists()) == ("", False)


def test_without_reframe_no_run_begins(nimc, command, monkeypatch):
    monkeypatch.chdir(nimc.folder)
    missing = nimc.folder / "none"
    monkeypatch.setenv("NIMC_REFRAME", str(missing))
    line = command.refused(*nimc.words(), code=3)
    assert_message(line, "reframe", f"NIMC_REFRAME={missing}")
    assert (command.out, nimc.results.exists()) == ("", False)


def test_a_run_that_cannot_begin_leaves_no_folder(nimc, monkeypatch):
    nimc.ended("--fresh", faults="torn", code=3)
    run = nimc.the_run()
    full = OSError(errno.ENOSPC, "No space left on device", "run.json")
    with monkeypatch.context() as patch:
        patch.setattr("nimc.run.folder.save_header", Mock(side_effect=full))
        _, err = nimc.ended("--fresh", code=3)
    assert err.splitlines()[-1] == "nimc: run.json: No space left on device"
    assert nimc.the_run() == (nimc.results / "latest").resolve() == run


@pytest.mark.slow
def test_a_full_disk_is_reported_and_the_campaign_resumes_when_there_is_room(nimc: Nimc) -> None:
    """The file system has 128 KiB. First it is full, then it has room for a few samples only."""
    run = shlex.join([*nimc_without_figures.COMMAND, *nimc.words()])
    script = f"""
        mkdir results && mount -t tmpfs -o size=128k none results || exit 77
        head -c 131072 /dev/zero > results/filler
        {run}; echo status $?
        ls -A --ignore '.nimc-*.lock' results
        head -c 110000 /dev/zero > results/filler
        {run}; echo status $?
        rm results/filler; mount -o remount,size=8m results
        {run} --json > document.json; echo status $?
        cat results/small-*/samples/stream.jsonl > stream.jsonl
    """
    outcome = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
        cwd=nimc.folder,
        env={**os.environ, **nimc.environment()},
        timeout=600,
        capture_output=True,
        text=True,
    )
    if outcome.returncode == 77 or "unshare" in outcome.stderr:
        pytest.skip(f"no mount namespace of one's own here: {outcome.stderr.strip()}")
    printed = outcome.stdout.splitlines()
    assert printed == ["status 3", "filler", "status 3", "status 0"], outcome.stderr
    first, *later = outcome.stderr.splitlines()
    assert first.endswith("/run.json: No space left on device")
    assert any("No space left on device" in line for line in later)
    assert "Traceback" not in outcome.stderr
    rows = json.loads((nimc.folder / "document.json").read_text())["results"]
    assert {row["pairs"] for row in rows} == {6}
    keys = [json.loads(line)["key"] for line in (nimc.folder / "stream.jsonl").open()]
    assert len(keys) == len(set(keys))


@pytest.fixture
def held(nimc: Nimc) -> Iterator[subprocess.Popen[str]]:
    """Yields a campaign that waits after its warm-up. It ignores SIGHUP, as under nohup."""
    ignore = partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)
    process = nimc.start("--fresh", faults="held,child", preexec_fn=ignore)
    wait_until(nimc.has_samples, process=process)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.slow
def test_two_simultaneous_sessions_do_not_share_a_run(nimc, command, held):
    out, err = nimc.ended(code=2)
    assert out == ""
    assert f"process {held.pid}" in err
    line = command.refused("pack", nimc.results / "latest")
    assert_message(line, f"{nimc.the_run()}", f"process {held.pid}", allowed="wait for it")


@pytest.mark.slow
def test_a_signal_leaves_samples_and_no_process(nimc, command, held):
    status, err = stopped(held, signal.SIGHUP, signal.SIGINT)
    assert status == 130
    last_line = err.splitlines()[-1]
    assert "SIGINT" in last_line
    assert last_line.endswith(f": {resume_command(nimc)}")
    assert processes_of(nimc.the_run()) == []
    assert leftovers(nimc) == []
    # The unfinished run can be packed.
    crate = nimc.folder / "crate.zip"
    packed = command("pack", nimc.the_run(), "-o", crate)
    assert packed.splitlines()[-1].startswith("not finished: ")
    command("verify", crate)


def test_a_run_whose_folder_is_gone_is_named(nimc, monkeypatch):
    runs = []

    def unmount(plan: BlockPlan) -> bool:
        runs.append(plan.nimc_dir)
        nimc.results.rename(nimc.folder / "unmounted")
        return True

    monkeypatch.setattr("tests.nimc.fake_reframe.measure", unmount)
    _, err = nimc.ended(code=3)
    assert err.splitlines()[-1].startswith(f"nimc: {runs[0]}: ")
    assert not nimc.results.exists()


@pytest.mark.slow
def test_when_nimc_itself_is_killed_its_session_ends_too(nimc):
    process = nimc.start(faults="held")
    wait_until(nimc.has_samples, process=process)
    process.kill()
    process.communicate()
    wait_until(lambda: processes_of(nimc.the_run()) == [])


#: A campaign of which a single run takes longer than the test.
LASTING = """\
name: small
workloads:
  - {check: stream, set: {iterations: 100000, array_most: 8MiB, warmups: 0}, expect: 1s}
arms: [off, aa]
pairs: {floor: 96}
"""


@pytest.mark.slow
def test_a_campaign_that_is_stopped_leaves_no_folder_of_its_writers(nimc):
    """ReFrame is real here. After a signal, the block cleans up before it ends."""
    nimc.write(LASTING)
    real_reframe = {"NIMC_REFRAME": "", "PYTHONPATH": str(ROOT)}
    process = nimc_without_figures.start(nimc.words(), nimc.folder, real_reframe)

    def open_folders() -> set[Path]:
        pids = [pid for run in nimc.results.glob("small-*") for pid in processes_of(run)]
        return set().union(*map(writers_folders, pids))

    (folder,) = wait_until(open_folders, process=process)
    status, _ = stopped(process, signal.SIGTERM)
    assert status == 143
    assert processes_of(nimc.the_run()) == []
    assert not folder.exists()
    (block,) = nimc.the_run().glob("logs/stream/0/block.json")
    assert json.loads(block.read_text())["state"] == "cancelled"


def writers_folders(pid: int) -> set[Path]:
    """Return the folders of writers that a process has open. An agent has one."""
    open_files = set()
    with suppress(OSError):  # the process may end meanwhile
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # the process may close a file meanwhile
                open_files.add(file.readlink())
    return {path for path in open_files if path.name.startswith("nimc-writers-")}


def leftovers(nimc: Nimc) -> list[int]:
    """Return the processes that the stand-in has left: `sleep 300` in a folder of the campaign.

    Their environment does not show to which run they belong.
    """
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")[:2]
            folder = os.readlink(process / "cwd")
            if words == [b"sleep", b"300"] and folder.startswith(str(nimc.folder)):
                pids.append(int(process.name))
    return pids


def test_after_a_signal_during_the_report_the_command_for_a_report_is_printed(nimc, monkeypatch):
    monkeypatch.setattr(
        "analysis.report.page.render", lambda *_: os.kill(os.getpid(), signal.SIGINT)
    )
    _, err = nimc.ended(figures=True, code=130)
    last_line = err.splitlines()[-1]
    assert "SIGINT" in last_line
    assert last_line.endswith(f": {Shell(nimc.folder).line('report', nimc.the_run())}")


THIRD_PARTY_CAMPAIGN = """\
name: small
workloads:
  - {check: third_party.py:plain, set: {figure: step}, expect: 5s}
  - {check: stream, set: {iterations: 10}, expect: 1s}
arms: [off, on, aa]
pairs: {floor: 6, cap: 6}
"""


THIRD_PARTY_CHECKS = ROOT / "tests/nimc/campaign/third_party.py"


@pytest.mark.slow
def test_runs_of_a_third_party_check_are_counted_before_it_has_read_them(nimc, monkeypatch):
    shutil.copy(THIRD_PARTY_CHECKS, nimc.folder)
    nimc.write(THIRD_PARTY_CAMPAIGN)
    monkeypatch.setattr("nimc.run.progress.LINE_INTERVAL_S", 0.0)
    _, err = nimc.ended("--case", "plain", faults="unread", code=3)
    assert "plain, block 0: 0 of 19 runs" in err
    assert "plain, block 0: 19 of 19 runs" in err  # printed when ReFrame ends, which is too early
    (failure,) = (line for line in err.splitlines() if line.startswith("nimc: plain: "))
    assert "block 0" in failure
    # In the next session, the check first reads these runs. Then no further run is needed.
    _, err = nimc.ended("--case", "plain")
    assert "plain, block 0: the check reads its runs" in err
    assert "block 1" not in err
    keys = [sample["key"] for sample in nimc.samples("plain")]
    assert (len(keys), len(set(keys))) == (19, 19)


@pytest.mark.slow
def test_a_clock_that_was_set_back_between_two_sessions_is_noted(nimc, command):
    nimc.ended(faults="die", code=3)
    header = nimc.header()
    header["started_s"] += 3600.0  # the first session was an hour ahead
    (nimc.the_run() / "run.json").write_text(json.dumps(header))
    nimc.ended()
    run = nimc.the_run()
    assert nimc.header()["finished_s"] < header["started_s"]
    command("report", run)
    command("verify", run)
    command("pack", run, "--output", nimc.folder / "crate.zip")
    (document,) = json.loads((run / "report/results.json").read_text())["runs"]
    assert document["integrity_faults"] == []


@pytest.mark.slow
def test_a_third_party_check_is_measured_verified_reported_and_compared(nimc, command):
    checks = nimc.folder / "third_party.py"
    shutil.copy(THIRD_PARTY_CHECKS, checks)
    nimc.write(THIRD_PARTY_CAMPAIGN)
    nimc.ended(faults="torn", code=3)  # killed within the first block
    out, err = nimc.ended("--json")
    run = nimc.the_run()
    assert f"resumes {run}" in err
    document = json.loads(out)
    assert document["integrity_faults"] == []
    workloads = {row["case"]: row["workload"] for row in document["results"]}
    assert workloads == {"plain": "plain", "stream": "stream"}

    # ReFrame is called with the file of the check. The digest of the file is recorded.
    digest = hashlib.sha256(checks.read_bytes()).hexdigest()
    assert nimc.header()["resolved"]["checks"] == {"plain": digest}
    log = (run / "logs/plain/0/reframe.log").read_text()
    assert f"-c {checks} -r -n ^plain(%.*)?$ " in log
    assert BlockPlan.load(run / "logs/plain/0/plan.json").settings == {"figure": "step"}

    # The run can be reported and packed, but its crate cannot be reproduced.
    command("report", run)
    crate = nimc.folder / "crate.zip"
    command("pack", run, "-o", crate)
    command("verify", crate)
    command("reproduce", crate, "--machine", "localhost", code=2)
    assert "third_party.py:plain" in command.err

    # If the check is changed, another run begins. Both runs can be compared.
    checks.write_text(checks.read_text() + "# one line more\n")
    header = json.loads((run / "run.json").read_text()) | {"finished_s": None}
    (run / "run.json").write_text(json.dumps(header))
    _, err = nimc.ended()
    assert_not_resumed(err, run, "checks")
    (other,) = set(nimc.runs()) - {run}
    assert "plain" in command("compare", run, other)
