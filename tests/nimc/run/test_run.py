"""`nimc run` from outside: what is on disk, printed and left running after whatever happens."""

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
from contextlib import suppress
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from nimc.run.session import NIMC, processes_of
from records import chain
from records.block_plan import BlockPlan
from records.commands import Shell
from records.order import run_seed
from tests.commands import CAMPAIGN, ROOT, Nimc
from tests.nimc import nimc_without_figures
from tests.nimc.documented import assert_documented
from tests.waiting import wait_until


def stopped(process: subprocess.Popen[str], *signals: signal.Signals) -> tuple[int, str]:
    """Exit status and standard error after these signals."""
    for number, signum in enumerate(signals):
        time.sleep(0.3 if number else 0.0)
        process.send_signal(signum)
    _, err = process.communicate(timeout=300)
    return process.returncode, err


def test_a_campaign_runs_once_and_prints_one_document(nimc):
    process = nimc.start("--json", fake="child", command=NIMC)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert children_of_nobody(nimc) == []  # what a session left has ended
    document = json.loads(out)
    assert_documented("run", document)
    assert document["machine"] == "localhost"
    assert document["campaign"] == "small"
    assert Path(document["run"]) == nimc.the_run()
    assert "<svg" in Path(document["report"]).read_text()
    assert document["failures"] == []
    rows = {(row["case"], row["arm"]): row for row in document["results"]}
    assert set(rows) == {("stream", "on"), ("stream", "aa")}
    row = rows["stream", "on"]
    assert (row["pairs"], row["rejected"], row["unit"]) == (6, 0, "B/s")
    # As the stand-in reports them.
    assert (row["off_median"], row["on_median"]) == pytest.approx((1e10, 5e9))
    for name in ("slowdown", "slowdown_low", "slowdown_high"):
        assert row[name] == pytest.approx(2.0)
    assert (row["writer_rate_alone_b_s"], row["writer_rate_b_s"]) == pytest.approx((2e9, 1e9))
    for name in ("workload", "noise_floor_low", "noise_floor_high", "verdict", "rejections"):
        assert name in row
    assert nimc.header()["finished_s"] is not None
    assert nimc.header()["campaign_text"] == CAMPAIGN
    head = nimc.header()["head"]
    assert document["head"] == head
    assert f"head of its chain: {head}" not in err  # that of no sample yet
    assert head in Path(document["report"]).read_text()
    (results,) = json.loads(Path(document["report"]).with_name("results.json").read_text())["runs"]
    assert results["head"] == head


def test_a_run_of_some_cases_is_neither_resumed_by_the_campaign_nor_taken_for_it(nimc):
    nimc.write_two_cases()
    out, _ = nimc.ended("--case", "lammps", "--json")
    some = Path(json.loads(out)["run"])
    assert json.loads(out)["integrity_faults"] == []
    assert {row["case"] for row in json.loads(out)["results"]} == {"lammps"}
    header = json.loads((some / "run.json").read_text())
    (some / "run.json").write_text(json.dumps(header | {"finished_s": None}))
    out, err = nimc.ended("--json")
    assert f"does not resume {some}: different workloads\n" in err
    whole = json.loads(out)
    assert Path(whole["run"]) != some
    assert {row["case"] for row in whole["results"]} == {"stream", "lammps"}
    assert {path.name for path in (some / "samples").iterdir()} == {"lammps.jsonl"}


def test_quiet_prints_the_results_alone_and_verbose_each_run(nimc):
    out, err = nimc.ended("--quiet")
    assert err == ""
    assert max(map(len, out.partition("\nsamples: ")[0].splitlines())) <= 80
    verbose, err = nimc.ended("-v")
    assert ("baseline repeated: " in verbose, "baseline repeated: " in out) == (True, False)
    assert len(nimc.runs()) == 2  # a complete one is not added to
    lines = [line for line in err.splitlines() if "GB/s" in line]
    assert len(lines) == 6 * 3 + 1  # three arms in six pairs, and a warm-up
    assert "stream, block 0: ReFrame's output is in " in err


FACTORS = """\
name: small
workloads:
  - {check: stream, set: {iterations: 10, warmups: 1}, expect: 1s}
factors: {rate: [0, 50%, full], reserved_cores: [0, 1]}
exclude: [{reserved_cores: 1, rate: 50%}, {arm: spin}]
pairs: {floor: 6, cap: 6}
"""
#: Treatments that are paired, by hand: two baselines; half the rate is excluded at one core less.
PAIRED = {
    "on",
    "on@rate=50%",
    "aa",
    "on@reserved_cores=1",
    "aa@reserved_cores=1",
}


def test_treatments_of_factors_are_measured_and_resumed(nimc):
    nimc.write(FACTORS)
    _, err = nimc.ended("--json", fake="torn", code=3)  # gone after three pairs of six
    assert "0 of 43 runs" in err  # a warm-up and six pairs of seven
    out, err = nimc.ended("--json")
    assert "resumes " in err
    rows = {row["arm"]: row for row in json.loads(out)["results"]}
    assert {name: row["pairs"] for name, row in rows.items()} == dict.fromkeys(PAIRED, 6)
    assert rows["on@reserved_cores=1"]["baseline"] == "off@reserved_cores=1"
    assert rows["on@rate=50%"]["factors"] == {"rate": "50%", "reserved_cores": 0}
    later = [s for s in nimc.samples("stream") if s["block"] == 1 and not s["warmup"]]
    assert len(later) == 3 * (2 + 5)


@pytest.mark.slow
def test_a_finished_run_continues_with_more_pairs_and_never_with_fewer(nimc):
    nimc.write(FACTORS.replace("cap: 6", "cap: 6, precision: 0.1"))
    nimc.ended(fake="wide")
    before = nimc.header()
    out, err = nimc.ended("--json", "--pairs", "12", fake="wide")
    assert f"resumes {nimc.the_run()}" in err
    document = json.loads(out)
    assert document["integrity_faults"] == []  # of the chain, and of the order of runs
    assert {row["pairs"] for row in document["results"]} == {12}
    after = nimc.header()
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"pairs_raised", "finished_s", "head"}
    for number, allowed in (("8", "has 12; allowed: from 12"), ("10", "6, 8, 12, 16, 24,")):
        _, err = nimc.ended("--pairs", number, code=2)
        assert (err.count("\n"), allowed in err) == (1, True), err
    assert nimc.header() == after
    nimc.ended("--pairs", "12")
    assert (nimc.complete_pairs("stream"), nimc.header()["head"]) == (12, after["head"])
    nimc.ended()
    assert len(nimc.runs()) == 2


def test_the_cap_of_a_new_run_may_be_lower_than_the_campaigns(nimc):
    nimc.write(CAMPAIGN.replace("cap: 6", "cap: 24, precision: 0.001"))
    nimc.ended("--pairs", "8", fake="faint")
    assert (nimc.complete_pairs("stream"), nimc.header()["pairs_cap"]) == (8, 8)


def test_what_the_machine_has_not_is_left_out_and_no_failure(nimc):
    nimc.write(f"{CAMPAIGN}factors: {{core_spec: [0, 1]}}\n")
    document = json.loads(nimc.ended("--json")[0])  # with exit code 0
    assert {row["case"] for row in document["results"]} == {"stream@core_spec=0"}
    assert [row["case"] for row in document["absent"]] == ["stream@core_spec=1"]
    assert document["failures"] == []


OPEN = "name: small\nworkloads: [{check: stream, expect: 1s}]\narms: [off, on, spin, aa]\n"


@pytest.mark.parametrize(
    ("pairs", "fake", "first", "last"),
    [
        # 2 % slower, at a noise of 2.5 %.
        ("{floor: 6, cap: 6}", "faint,faint", "inconclusive", "slower under emulated writes"),
        # Six pairs, of 2^6 exchanges, never show a difference from the control.
        ("{floor: 6, cap: 6}", ",", "not above the control", "slower under emulated writes"),
        # Rejected until as many are as the cap allows to be accepted.
        ("{floor: 8, cap: 12}", "scarce,", "too few pairs", "slower under emulated writes"),
    ],
)
def test_the_command_that_is_printed_reaches_a_verdict(nimc, pairs, fake, first, last):
    """What a user does: run the campaign, then the command of `Next:`, until there is a verdict."""
    nimc.write(f"{OPEN}pairs: {pairs}\n")
    at_first, afterwards = fake.split(",")
    out, _ = nimc.ended(fake=at_first)
    printed = " ".join(out.split())
    assert f"(stream: {first})" in printed
    for _ in range(6):
        if last in printed:
            break
        (line,) = re.findall(r"Next: [^(]*`[^ ]*nimc ([^(`]*--pairs \d+)`", printed)
        status, out, err = nimc.typed(line.split(), nimc.folder, fake=afterwards)
        assert status == 0, err
        assert f"resumes {nimc.the_run()}" in err
        printed = " ".join(out.split())
    assert f"(stream: {last})" in printed


def test_a_failing_case_is_reported_and_tried_again_unless_the_campaign_is_another(nimc):
    nimc.write_two_cases()
    _, err = nimc.ended(fake="die", code=3)
    expected = [line for line in err.splitlines() if "no such system" in line]
    assert [line.split(": ")[1] for line in expected] == ["stream", "lammps"]
    assert ("Traceback" in err, "does not resume" in err) == (False, False)
    first = nimc.the_run()
    assert nimc.header()["finished_s"] is None
    nimc.write(CAMPAIGN.replace("cap: 6", "cap: 7"))
    _, err = nimc.ended(fake="die", code=3)
    assert f"nimc: does not resume {first}: different pairs, workloads\n" in err
    nimc.write_two_cases()
    # What failed is tried again, in its run and in a block of its own.
    _, err = nimc.ended()
    assert f"nimc: resumes {first}" in err
    lines = (first / "samples/stream.jsonl").read_text().splitlines()
    assert {json.loads(line)["block"] for line in lines} == {1}


def test_rejected_runs_never_end_in_a_loop(nimc):
    _, err = nimc.ended(fake="reject", code=3)
    assert "stream: no pair was accepted: writer 0 wrote at 3%; " in err
    # The next session tries as often again, and goes on where writers reach their rate.
    rejected = len(nimc.samples("stream"))
    nimc.ended(fake="reject", code=3)
    assert len(nimc.samples("stream")) == 2 * rejected
    nimc.ended()
    assert nimc.complete_pairs("stream") == 6


def resuming(nimc: Nimc) -> str:
    """The command without the option that says where runs are anyway."""
    words = nimc.words()
    assert words[-2:] == ["--results", "results"]
    return Shell(nimc.folder).line(*words[:-2])


def test_a_torn_line_costs_one_sample_and_only_what_is_missing_is_run(nimc):
    """The chain goes on; its head before each block is in the report of ReFrame."""
    _, begun = nimc.ended(fake="torn", code=3)  # gone after three pairs of six
    assert "ReFrame was killed by SIGKILL" in begun
    assert f"to resume: {resuming(nimc)}" in begun.splitlines()[-1]
    assert nimc.complete_pairs("stream") == 3
    header, run = nimc.header(), nimc.the_run()
    assert header["seed"] == run_seed(header["digest"], run.name)
    # Nothing is added to a file with a line that is no sample.
    file = run / "samples/stream.jsonl"
    torn = file.read_bytes()
    file.write_bytes(torn.rpartition(b"\n")[0] + b"\ngarbage\n")
    assert "--fresh" in nimc.ended(code=2)[1]
    file.write_bytes(torn)
    out, resumed = nimc.ended()
    assert nimc.complete_pairs("stream") == 6
    later = [s for s in nimc.samples("stream") if s["block"] == 1 and not s["warmup"]]
    assert len(later) == 3 * 3
    assert {sample["seed"] for sample in nimc.samples("stream")} == {header["seed"]}
    logs = [(run / f"logs/stream/{block}/reframe.log").read_text() for block in (0, 1)]
    heads = [re.search("--session-extras=nimc_head=([0-9a-f]{64})", log)[1] for log in logs]
    assert f"head of its chain: {heads[1]}" in resumed
    last = nimc.header()["head"]
    assert f"\nhead:    {last}\n" in out
    assert len({*heads, last}) == 3
    assert chain.walk_run(run).head == last
    # Another one in which ReFrame does nothing.
    _, err = nimc.ended("--fresh", fake="none", code=3)
    assert "nimc: starts " in err
    assert "stream: block 0 added no pair: " in err


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_complete_with_no_sample_twice(nimc: Nimc) -> None:
    nimc.write_two_cases()
    moment = random.Random(1)

    def samples() -> int:
        """Whole lines: what is left of one is removed when the run is resumed."""
        return sum(file.read_bytes().count(b"\n") for file in nimc.results.rglob("*.jsonl"))

    for _ in range(3):
        # It cannot end before the last kill: at most two pairs a case are made each time.
        wanted = samples() + moment.randint(0, 7)
        process = nimc.start(fake="slow,stuck")
        wait_until(lambda wanted=wanted: samples() >= wanted, process=process)  # type: ignore[misc]
        time.sleep(moment.uniform(0.0, 0.1))
        process.kill()
        process.communicate()
    nimc.ended()
    for case in ("stream", "lammps"):
        keys = [sample["key"] for sample in nimc.samples(case)]
        assert len(keys) == len(set(keys))
        assert nimc.complete_pairs(case) >= 6
        # Each kill costs the current pair at most.
        assert len(keys) <= 6 * 3 + 4 * (1 + 3)


@pytest.mark.parametrize(
    ("options", "status", "expected"),
    [
        (["--machine", "nowhere"], 2, "machine 'nowhere': site/nowhere.yaml not found; known mach"),
        (["--results", "small.yaml/x"], 2, "--results: 'small.yaml/x' found; allowed: a folder"),
        (["--results", "/proc/none"], 3, "/proc/none: No such file or directory"),
        ([], 3, "reframe: not found NIMC_REFRAME="),
    ],
)
def test_what_cannot_work_is_reported_in_one_line(
    nimc, command, monkeypatch, options, status, expected
):
    monkeypatch.chdir(nimc.folder)
    monkeypatch.setenv("NIMC_REFRAME", str(nimc.folder / ("reframe" if options else "none")))
    words = ["--machine", "localhost", "--results", "results", *options]
    assert expected in command.refused("run", "small.yaml", *words, code=status)
    assert (command.out, nimc.results.exists()) == ("", False)


def test_a_run_that_cannot_begin_leaves_nothing(nimc, monkeypatch):
    nimc.ended("--fresh", fake="torn", code=3)
    run = nimc.the_run()
    full = OSError(errno.ENOSPC, "No space left on device", "run.json")
    with monkeypatch.context() as patch:
        patch.setattr("nimc.run.folder.save_header", Mock(side_effect=full))
        _, err = nimc.ended("--fresh", code=3)
    assert err.splitlines()[-1] == "nimc: run.json: No space left on device"
    assert nimc.the_run() == (nimc.results / "latest").resolve() == run


@pytest.mark.slow
def test_a_full_disk_is_reported_and_the_campaign_resumes_when_there_is_room(nimc: Nimc) -> None:
    """On a file system of 128 KiB: full, then filled up but for a few samples."""
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


def test_two_at_once_do_not_share_a_run_and_a_signal_leaves_no_process(nimc, command):
    """Under nohup, which has a hangup ignored."""
    ignore = partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)
    first = nimc.start("--fresh", fake="held,child", preexec_fn=ignore)
    wait_until(nimc.has_samples, process=first)
    out, err = nimc.ended(code=2)
    assert out == ""
    assert f"another nimc (process {first.pid}) is running this campaign there" in err
    line = command.refused("pack", nimc.results / "latest")
    assert line == (
        f"{nimc.the_run()}: another nimc (process {first.pid}) is running this campaign there;"
        " allowed: wait for it, or end it"
    )
    code, err = stopped(first, signal.SIGHUP, signal.SIGINT)
    assert code == 130
    assert err.splitlines()[-1] == (
        f"nimc: stopped by SIGINT; all samples are saved; to resume: {resuming(nimc)}"
    )
    assert processes_of(nimc.the_run()) == []
    assert children_of_nobody(nimc) == []
    crate = nimc.folder / "crate.zip"
    packed = command("pack", nimc.the_run(), "-o", crate)
    assert packed.endswith("\nnot finished: the crate has what was measured so far\n")
    command("verify", crate)


def test_a_run_whose_folder_is_gone_is_named(nimc, monkeypatch):
    runs = []

    def unmount(plan: BlockPlan) -> bool:
        runs.append(plan.nimc_dir)
        nimc.results.rename(nimc.folder / "unmounted")
        return True

    monkeypatch.setattr("tests.nimc.fake_reframe.measure", unmount)
    _, err = nimc.ended(code=3)
    assert err.splitlines()[-1] == (
        f"nimc: {runs[0]}: this folder is gone: deleted, or not mounted any more"
    )
    assert not nimc.results.exists()


def test_when_nimc_itself_is_killed_its_session_ends_too(nimc):
    process = nimc.start(fake="held")
    wait_until(nimc.has_samples, process=process)
    process.kill()
    process.communicate()
    wait_until(lambda: processes_of(nimc.the_run()) == [])


#: A run takes longer than the test.
LASTING = """\
name: small
workloads:
  - {check: stream, set: {iterations: 100000, array_most: 8MiB, warmups: 0}, expect: 1s}
arms: [off, aa]
pairs: {floor: 96}
"""


@pytest.mark.slow
def test_a_campaign_that_is_stopped_leaves_no_folder_of_its_writers(nimc):
    """With real ReFrame: at a signal the block cleans up before it ends."""
    nimc.write(LASTING)
    words, real = nimc.words(), {"NIMC_REFRAME": "", "PYTHONPATH": str(ROOT)}
    started = nimc_without_figures.start(words, nimc.folder, real)

    def folders() -> set[Path]:
        pids = {pid for run in nimc.results.glob("small-*") for pid in processes_of(run)}
        return {link for pid in pids for link in writers_folders(pid)}

    (folder,) = wait_until(folders, process=started)
    code, _ = stopped(started, signal.SIGTERM)
    assert code == 143
    assert processes_of(nimc.the_run()) == []
    assert not folder.exists()
    (block,) = nimc.the_run().glob("logs/stream/0/block.json")
    assert json.loads(block.read_text())["state"] == "cancelled"


def writers_folders(pid: int) -> list[Path]:
    """That which an agent has open."""
    files = []
    with suppress(OSError):  # it may end meanwhile
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # it opens and closes others meanwhile
                files.append(file.readlink())
    return [folder for folder in files if folder.name.startswith("nimc-writers-")]


def children_of_nobody(nimc: Nimc) -> list[int]:
    """Processes that the stand-in left with no trace of the run in their environment."""
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")[:2]
                folder = os.readlink(entry / "cwd")
            except OSError:
                continue
            if words == [b"sleep", b"300"] and folder.startswith(str(nimc.folder)):
                pids.append(int(entry.name))
    return pids


def test_a_signal_during_the_report_says_how_to_make_it(nimc, monkeypatch):
    monkeypatch.setattr(
        "analysis.report.page.render", lambda *_: os.kill(os.getpid(), signal.SIGINT)
    )
    _, err = nimc.ended(figures=True, code=130)
    assert err.splitlines()[-1] == (
        "nimc: stopped by SIGINT; the samples are complete; for the report:"
        f" {Shell(nimc.folder).line('report', nimc.the_run())}"
    )


OF_OTHERS = """\
name: small
workloads:
  - {check: theirs.py:plain, set: {figure: step}, expect: 5s}
  - {check: stream, set: {iterations: 10}, expect: 1s}
arms: [off, on, aa]
pairs: {floor: 6, cap: 6}
"""


def test_runs_of_a_check_of_others_are_counted_before_it_has_read_them(nimc, monkeypatch):
    shutil.copy(ROOT / "tests/nimc/campaign/theirs.py", nimc.folder)
    nimc.write(OF_OTHERS)
    monkeypatch.setattr("nimc.run.progress.PLAIN_S", 0.0)
    _, err = nimc.ended("--case", "plain", fake="unread", code=3)
    assert "plain, block 0: 0 of 19 runs" in err
    assert "plain, block 0: 19 of 19 runs" in err  # as its ReFrame ends, too early
    assert "plain: the check has not read the runs of block 0: " in err
    # The next session has them read before it decides what else to measure: nothing.
    _, err = nimc.ended("--case", "plain")
    assert "plain, block 0: the check reads its runs" in err
    assert "block 1" not in err
    keys = [sample["key"] for sample in nimc.samples("plain")]
    assert (len(keys), len(set(keys))) == (19, 19)


def test_a_clock_that_was_set_back_between_two_sessions_is_noted(nimc, command):
    nimc.ended(fake="die", code=3)
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
def test_a_check_of_others_is_measured_verified_reported_and_compared(nimc, command):
    theirs = nimc.folder / "theirs.py"
    shutil.copy(ROOT / "tests/nimc/campaign/theirs.py", theirs)
    nimc.write(OF_OTHERS)
    nimc.ended(fake="torn", code=3)  # killed within the first block
    out, err = nimc.ended("--json")
    run = nimc.the_run()
    assert f"resumes {run}" in err
    document = json.loads(out)
    assert document["integrity_faults"] == []
    workloads = {row["case"]: row["workload"] for row in document["results"]}
    assert workloads == {"plain": "plain", "stream": "stream"}
    digest = hashlib.sha256(theirs.read_bytes()).hexdigest()
    assert nimc.header()["resolved"]["checks"] == {"plain": digest}
    log = (run / "logs/plain/0/reframe.log").read_text()
    assert f"-c {theirs} -r -n ^plain(%.*)?$ " in log
    assert BlockPlan.load(run / "logs/plain/0/plan.json").settings == {"figure": "step"}

    command("report", run)
    crate = nimc.folder / "crate.zip"
    command("pack", run, "-o", crate)
    command("verify", crate)
    command("reproduce", crate, "--machine", "localhost", code=2)
    assert "theirs.py:plain: a third-party check is not in a crate" in command.err

    theirs.write_text(theirs.read_text() + "# one line more\n")
    header = json.loads((run / "run.json").read_text()) | {"finished_s": None}
    (run / "run.json").write_text(json.dumps(header))
    _, err = nimc.ended()
    assert f"does not resume {run}: different checks\n" in err
    (other,) = set(nimc.runs()) - {run}
    assert "plain" in command("compare", run, other)
