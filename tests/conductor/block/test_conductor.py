"""A real conductor on this host, and the ways in which a block of runs can end.

In the arm `off` of a block nothing writes, in `on` writers write. `spin` is a control that only
computes, and `aa` repeats `off`.
"""

import asyncio
import errno
import gzip
import hashlib
import json
import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from conductor.block.agents import require_open_files
from conductor.block.allocation import Allocation
from conductor.block.conductor import watch_owner
from records.block_plan import ShortWrites
from records.errors import MachineError
from tests.conductor.conftest import MELT, PACE, lasting, needs, state_of, stop_for
from tests.conductor.treatments import treatments
from tests.waiting import wait_until

ORIGIN = "ucp_put_bw"


@needs("ucx")
@pytest.mark.slow
def test_a_pair_of_all_arms(block):
    arms = ["off", "on", "spin", "aa"]
    run = block(
        command=lasting(3.5),
        arms=arms,
        warmups=1,
        writes={"buffer_node": 0},
        limits={**PACE, "ready_rows": 3},
    )
    origins = {}
    for arm in [treatment.name for treatment in run.plan.order(0)]:
        run.started(f"0-{arm}-0")
        origins[arm] = {pid: state_of(pid) for pid in run.processes(ORIGIN)}
    samples = {sample["arm"]: sample for sample in run.done().samples() if not sample["warmup"]}
    assert sorted(samples) == sorted(arms)
    assert {sample["outcome"] for sample in samples.values()} == {"accepted"}
    # The captured output has this figure of merit.
    assert {sample["fom"] for sample in samples.values()} == {1.12089}
    # The same process writes in one run, and is suspended in the others.
    assert len({frozenset(states) for states in origins.values()}) == 1
    stopped = {arm: set(states.values()) == {"T"} for arm, states in origins.items()}
    assert stopped == {"off": True, "on": False, "spin": True, "aa": True}
    (writer,) = samples["on"]["writers"]
    assert writer["rate_alone_b_s"] > 1e8  # one core copies at gigabytes a second
    assert writer["rate_before_b_s"] > 1e8  # from the second and third row, of a second each
    elapsed_s = samples["on"]["elapsed_s"]
    assert writer["bytes_b"] == pytest.approx(writer["rate_b_s"] * elapsed_s, rel=1e-6)
    # The origin maps the buffers of both ends, 64 MiB each. The target touches neither.
    assert (writer["buffer_node"], list(writer["origin_buffers_b"])) == (0, ["0"])
    assert writer["origin_buffers_b"]["0"] >= 2 * (1 << 26)
    # Before each run, every arm waits as long as writers need to report the last second of one run
    # and to start again for the next.
    lead_ins = [sample["lead_in_s"] for sample in samples.values()]
    assert min(lead_ins) > 2.0
    assert max(lead_ins) - min(lead_ins) < 0.2 * max(lead_ins)
    # Over shared memory, only the writer's rows show what it wrote. The sample has a note on this.
    assert (writer["proof"], writer["overwritten_share"]) == ("unproven", None)
    assert any("over shared memory" in note for note in samples["on"]["notes"])
    assert writer["observed_share"] == pytest.approx(1.0)
    (control,) = samples["spin"]["writers"]
    assert (control["rate_b_s"], control["proof"]) == (0, None)
    assert 0.1 < control["cpu_share"] <= 1.1
    for sample in samples.values():
        (conditions,) = sample["conditions"]
        assert sample["elapsed_s"] < conditions["over_s"] < sample["elapsed_s"] + 10
        assert conditions["foreign_cpus"] >= 0
        assert conditions["counter"] is None  # nothing passes a device on one host
    assert samples["off"]["writers"] == []
    assert run.state()["state"] == "done"


@pytest.mark.slow
def test_a_block_continues_the_order_of_the_one_before(block, monkeypatch):
    """Two pairs of two treatments have both orders, even if they are in different blocks."""
    monkeypatch.setenv("LOADEDMODULES", "gcc/13.2.0:openmpi/5.0.8")
    for number in range(2):
        options = {"command": ["cat", str(MELT)], "block": number, "warmups": 1}
        run = block(arms=["off", "aa"], program="cat", modules=["openmpi"], **options).done()
    samples = run.samples()
    assert_names(run, samples[0])
    blocks = [[sample for sample in samples if sample["block"] == index] for index in (0, 1)]
    for rows in blocks:
        assert [one["pair"] for one in rows if one["warmup"]] == [rows[0]["pair"]] == [-1]
    orders = [[sample["arm"] for sample in samples[1:]] for samples in blocks]
    assert sorted(orders) == [["aa", "off"], ["off", "aa"]]
    for first, second, _ in blocks:  # the lead-in lasts from the end of a run to the next start
        assert first["lead_in_s"] is None
        gap_s = second["start_s"] - first["start_s"] - first["elapsed_s"]
        assert second["lead_in_s"] == pytest.approx(gap_s, abs=1e-6)


@needs("ucx")
@pytest.mark.slow
def test_writers_that_somebody_kills_or_continues(block):
    run = block(arms=["off", "on"], limits={**PACE, "retries": 2}, command=lasting(2))
    victims = {"off": signal.SIGCONT, "on": signal.SIGKILL}
    for arm in (treatment.name for treatment in run.plan.order(0)):
        run.started(f"0-{arm}-0")
        (writer,) = run.processes(ORIGIN)
        os.kill(writer, victims[arm])
    samples = run.done().samples()
    arm_samples = {arm: [sample for sample in samples if sample["arm"] == arm] for arm in victims}
    assert [sample["outcome"] for sample in arm_samples["on"]] == ["injector_died", "accepted"]
    assert arm_samples["on"][0]["fom"] is None
    assert "origin side ended" in arm_samples["on"][0]["reason"]
    # A held writer that ran is suspended again before the run is repeated.
    off = [(sample["outcome"], sample["reason"]) for sample in arm_samples["off"]]
    assert off == [("rejected", "1 held writer ran during the run"), ("accepted", None)]


@needs("ucx")
@pytest.mark.slow
def test_a_writer_that_is_stopped_within_its_window_is_late_with_a_row(block):
    """Over shared memory, only its rows show whether it writes. A row may be two intervals late."""
    run = block(
        arms=["off", "on"],
        limits={**PACE, "late_rows": 2},
        writes={"message_b": 1 << 20},
        command=lasting(4),
    )
    run.started("0-on-0")
    stop_for(run.processes(ORIGIN), 2.5)
    sample = run.done().sample()
    assert sample["outcome"] == "rejected"
    assert re.search(r"reported nothing for \d+\.\d s|wrote at \d+ %", sample["reason"])
    assert sample["fom"] == 1.12089  # a rejected sample keeps its figure of merit


@pytest.mark.slow
def test_a_conductor_that_stood_still_accepts_no_run(block, tmp_path):
    """If a job was suspended, neither its times nor the rows of its writers can be trusted."""
    gate = tmp_path / "gate"
    run = block(command=["sh", "-c", f"until test -e '{gate}'; do sleep 0.1; done; cat '{MELT}'"])
    run.started("0-off-0")
    stop_for(run.processes(), 2.0)  # conductor, agent and application
    gate.touch()
    (sample,) = run.done().samples()
    assert sample["outcome"] == "rejected"
    assert sample["reason"].startswith("the conductor did not run ")
    assert sample["elapsed_s"] > 1.8


@pytest.mark.slow
def test_an_application_that_fails_is_repeated_as_often_as_allowed(block):
    run = block(command=["sh", "-c", "echo lost atoms >&2; exit 3"], limits={"retries": 1})
    assert run.finish() == 1
    outcomes = [(sample["attempt"], sample["outcome"]) for sample in run.samples()]
    assert outcomes == [(0, "application_failed"), (1, "application_failed")]
    assert run.state()["state"] == "application_failed"
    assert "exit status 3: lost atoms" in run.err
    assert "Traceback" not in run.err


@pytest.mark.slow
@pytest.mark.parametrize("begun", ["its first run", "a sample"])
def test_a_job_that_is_started_again_runs_nothing(block, tmp_path, begun):
    """Samples with the same keys would make the run invalid, and outputs have the same names."""
    gate = tmp_path / "gate"
    first = block(command=["sh", "-c", f"until test -e '{gate}'; do sleep 0.1; done; cat '{MELT}'"])
    first.started("0-off-0")
    if begun == "a sample":
        gate.touch()
        first.done()
    samples = first.samples()
    again = block(command=["cat", str(MELT)])
    assert (again.finish(), again.samples()) == (1, samples)
    assert again.err.startswith("block melt/0 started_again: ")
    gate.touch()
    assert [sample["outcome"] for sample in first.done().samples()] == ["accepted"]
    assert first.state()["state"] == "done"


REFUSAL = "srun: error: Invalid --het-group argument"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        # The block ends at once, although agents have eleven minutes to connect.
        (
            {"agent_launcher": ["sh", "-c", f"echo '{REFUSAL}' >&2; exit 1"]},
            rf"agents\.log: {REFUSAL}$",
        ),
        # If a module is not loaded, a program of the same name elsewhere on PATH might be measured.
        ({"modules": ["gcc/13", "hpccg/9.9"]}, r"module hpccg/9\.9 .*; loaded: gcc/13\.2\.0"),
    ],
)
def test_what_keeps_a_block_from_starting_is_reported_at_once(block, monkeypatch, changes, reason):
    monkeypatch.setenv("LOADEDMODULES", "gcc/13.2.0")
    began_s = time.monotonic()
    run = block(**changes)
    assert run.finish() == 3
    assert time.monotonic() - began_s < 110
    (fault,) = (line for line in run.err.splitlines() if "machine_failed" in line)
    assert re.search(reason, fault)
    assert "Traceback" not in run.err
    assert run.samples() == []


def assert_names(run, sample):
    """Assert that the sample names its outputs, counts, program and modules."""
    (name,) = (log for log in sample["logs"] if log.endswith(".out"))
    assert set(sample["logs"]) == {name, name.replace(".out", ".series.json")}
    assert sample["logs"][name] == hashlib.sha256(MELT.read_bytes()).hexdigest()
    assert not (run.run_dir / name).exists()
    assert gzip.decompress((run.run_dir / f"{name}.gz").read_bytes()) == MELT.read_bytes()
    counters = run.run_dir / "counters/melt.jsonl"
    first = counters.read_bytes().splitlines(keepends=True) if counters.exists() else []
    run_counts = b"".join(row for row in first if json.loads(row)["key"] == sample["key"])
    assert sample["counters_sha256"] == (
        hashlib.sha256(run_counts).hexdigest() if run_counts else None
    )
    record = run.run_dir / "provenance" / f"{sample['provenance']}.json"
    provenance = json.loads(record.read_text())
    assert provenance["modules"] == ["gcc/13.2.0", "openmpi/5.0.8"]
    cat = os.path.realpath(shutil.which("cat"))
    assert (provenance["program"]["name"], provenance["program"]["path"]) == ("cat", cat)
    assert provenance["program"]["sha256"] == hashlib.sha256(Path(cat).read_bytes()).hexdigest()


#: A program that prints what Open MPI 4.1.4 prints if root starts it. A control sequence for the
#: terminal and a long word are added.
REFUSING_PROGRAM = f"""#!/bin/sh
echo ------------------------------
echo 'mpirun has detected an attempt to run as root.' >&2
echo 'Running as root is *strongly* discouraged'
printf '\\033[2J{"x" * 500}\\n------------------------------\\n' >&2
exit 213
"""


@pytest.mark.slow
def test_the_reason_of_a_writer_that_never_gets_ready_is_what_its_program_printed(
    block, tmp_path, monkeypatch
):
    program = tmp_path / "bin" / "ib_write_bw"
    program.parent.mkdir()
    program.write_text(REFUSING_PROGRAM)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    run = block(arms=["off", "on"], writes={"injector": "perftest", "message_b": 65536})
    assert run.finish() == 1
    state = run.state()
    assert state["state"] == "injector_never_ready"
    complaint = "mpirun has detected an attempt to run as root."
    assert state["reason"].endswith(f": {complaint}")
    assert complaint in run.err


AGENT = "conductor.agent.agent"


@needs("ucx")
@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL, "agent killed"])
def test_nothing_outlives_a_conductor_that_is_stopped_or_is_left_stopped(block, signum):
    run = block(arms=["off", "on"], pairs=50, command=lasting(3))
    run.started("0-off-0")
    assert [state_of(pid) for pid in run.processes(ORIGIN)] == ["T"]
    if signum == "agent killed":
        (agent,) = run.processes(AGENT)
        os.kill(agent, signal.SIGKILL)
    else:
        run.process.send_signal(signum)
    code = run.finish()
    wait_until(lambda: not run.processes())
    assert [sample["reason"] for sample in run.samples() if sample["outcome"] != "accepted"] == []
    assert code == {"agent killed": 3, signal.SIGKILL: -9}.get(signum, 143)
    if code == 143:
        assert run.state()["state"] == "cancelled"


def test_an_owner_is_gone_if_the_kernel_says_so_and_not_if_no_file_can_be_opened(monkeypatch):
    answers = iter(
        [5, OSError(errno.EMFILE, "Too many open files"), 5, OSError(errno.EIO, ""), None]
    )

    def start_ticks(_):
        if isinstance(now := next(answers), OSError):
            raise now
        return now

    monkeypatch.setattr("records.processes.start_ticks", start_ticks)
    monkeypatch.setattr("conductor.block.conductor.OWNER_INTERVAL_S", 0.0)
    asyncio.run(watch_owner(7))
    assert next(answers, "all") == "all"


def test_agents_that_need_more_files_than_are_allowed_are_refused(monkeypatch):
    monkeypatch.setattr("records.processes.raise_file_limit", lambda: 1024)
    require_open_files(Allocation([f"n{index}" for index in range(512)], []))
    many = Allocation([f"n{index}" for index in range(513)], [])
    with pytest.raises(MachineError, match=r"513 nodes need 1025 open files; .* 1024"):
        require_open_files(many)


@pytest.mark.slow
def test_a_block_does_not_go_on_without_its_owner(block):
    owner = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "300")
    run = block(command=["sleep", "30"], owner_pid=owner)
    run.started("0-off-0")
    os.kill(owner, signal.SIGKILL)
    os.waitpid(owner, 0)
    assert run.finish() == 143


@pytest.mark.slow
def test_a_second_signal_does_not_interrupt_the_clean_up(block, tmp_path):
    """A signal that ReFrame sends to the job's process group does not interrupt it either."""
    # The launcher ends late, as if the writers of its agents took long to end.
    slow = f'"$@"; sleep 0.5; touch {tmp_path}/ended'
    run = block(command=["sleep", "30"], agent_launcher=["sh", "-c", slow, "sh"])
    run.started("0-off-0")
    group = os.getpgid(run.process.pid)
    run.process.send_signal(signal.SIGTERM)
    wait_until(lambda: os.getpgid(run.process.pid) != group)
    run.process.send_signal(signal.SIGTERM)
    assert run.finish() == 143
    assert run.state()["state"] == "cancelled"
    assert (tmp_path / "ended").exists()


@needs("ucx")
@pytest.mark.slow
def test_short_writes_under_a_timetable_on_one_host(block):
    # On a busy host, the writes are made late.
    short = ShortWrites(length_s=0.4, fill=0.5, tolerance_s=20.0, allowed_share=0.9)
    arms = treatments(["off", "daly"], lasting(3), {"message_b": 1 << 26}, {"daly": 1})
    sample = block(treatments=arms, short=short, limits=PACE).done().sample("daly")
    assert sample["outcome"] == "accepted", sample["reason"]
    table = sample["timetable"]
    assert table["planned"] >= 7  # 3 s of writes of 0.4 s
    # Writes that were planned before the run may be late and fall into the run.
    assert 1 <= table["done"] <= 2 * table["planned"]
    assert table["unplanned"] == 0
    assert table["bytes_b"] == table["done"] * table["messages"] * (1 << 26)
    (writer,) = sample["writers"]
    assert writer["transport"] == "shared memory"
    assert writer["bytes_b"] > 0


@pytest.mark.slow
def test_a_control_that_is_stopped_is_rejected(block):
    running = block(arms=["off", "spin"], command=lasting(3), limits={**PACE, "min_share": 0.05})
    running.started("0-spin-0")
    (busy,) = running.processes("while True: pass")
    os.kill(busy, signal.SIGSTOP)
    sample = running.done().sample("spin")
    reason = r"control 0 computed nothing from second \d\.\d of the window"
    assert re.fullmatch(reason, sample["reason"])
