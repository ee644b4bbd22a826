"""The conductor for real, on this host: every way in which a block can end."""

import gzip
import hashlib
import json
import os
import re
import shutil
import signal
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from nimc.node.injectors import INJECTORS
from nimc.records.plan import Demand, ShortWrites
from nimc.records.treatment import Start
from tests.nimc.node.conftest import MELT
from tests.nimc.node.treatments import treatments
from tests.undisturbed import UNJUDGED

needs_ucx = pytest.mark.skipif(
    INJECTORS["ucx"].missing() is not None, reason=f"ucx: {INJECTORS['ucx'].missing()}"
)
ORIGIN = "ucp_put_bw"


def demand(**changes):
    return Demand(
        **{
            **{"min_share": 0.01, "retries": 0, "ready_timeout_s": 30, "run_timeout_s": 30},
            **UNJUDGED,
            **changes,
        }
    )


@needs_ucx
@pytest.mark.slow
def test_a_pair_of_all_arms(block):
    arms = ["off", "on", "spin", "aa"]
    asked = demand(ready_rows=3)
    slowly = ["sh", "-c", f"sleep 3.5; cat '{MELT}'"]
    run = block(
        command=slowly, arms=arms, warmups=1, writes={"buffer_node": 0}, demand=asked
    ).done()
    samples = {sample["arm"]: sample for sample in run.samples() if not sample["warmup"]}
    assert sorted(samples) == ["aa", "off", "on", "spin"]
    assert {sample["outcome"] for sample in samples.values()} == {"kept"}
    assert {sample["fom"] for sample in samples.values()} == {1.12089}  # as the capture says
    (writer,) = samples["on"]["writers"]
    assert writer["rate_alone_b_s"] > 1e8  # one core copies at gigabytes a second
    assert writer["rate_before_b_s"] > 1e8  # of the two rows after the first, of a second each
    assert min(sample["lead_in_s"] for sample in samples.values()) > 2.0
    assert writer["bytes_b"] == pytest.approx(
        writer["rate_b_s"] * samples["on"]["elapsed_s"], rel=1e-6
    )
    # Both ends' buffers of 64 MiB, which the origin maps; the target touches none of them.
    assert (writer["buffer_node"], list(writer["origin_buffers_b"])) == (0, ["0"])
    assert writer["origin_buffers_b"]["0"] >= 2 * (1 << 26)
    # Every arm waits as long as writers need: to report a last second, and to start again.
    lead_ins = [sample["lead_in_s"] for sample in samples.values()]
    assert min(lead_ins) > 1.0
    assert max(lead_ins) - min(lead_ins) < 0.2 * max(lead_ins)
    # An independent look at the target's memory: marks were overwritten, as writes do.
    assert (writer["proof"], writer["overwritten_share"]) == ("memory", 1.0)
    assert writer["observed_share"] == pytest.approx(1.0)
    (control,) = samples["spin"]["writers"]
    assert (control["rate_b_s"], control["proof"]) == (0, None)
    assert 0.1 < control["cpu_share"] <= 1.1
    for sample in samples.values():
        (found,) = sample["conditions"]
        assert sample["elapsed_s"] < found["over_s"] < sample["elapsed_s"] + 10
        assert found["foreign_cpus"] >= 0
        assert found["counter"] is None  # nothing passes a device on one host
    assert samples["off"]["writers"] == []
    assert run.state()["state"] == "done"


def test_a_block_continues_the_order_of_the_one_before(block):
    """Of two treatments, two pairs have both orders, wherever a block begins."""
    for number in range(2):
        run = block(arms=["off", "aa"], command=["cat", str(MELT)], block=number).done()
    samples = run.samples()
    orders = [[each["arm"] for each in samples if each["block"] == at] for at in (0, 1)]
    assert sorted(orders) == [["aa", "off"], ["off", "aa"]]
    for first, second in (samples[:2], samples[2:]):  # the lead-in is from end to start
        assert first["lead_in_s"] is None
        gap_s = second["start_s"] - first["start_s"] - first["elapsed_s"]
        assert second["lead_in_s"] == pytest.approx(gap_s, abs=1e-6)


def longer(plan, name):
    """The treatments of a plan, whose runs sleep for 2, 4, ... s instead of one second."""
    starts = [Start(["sh", "-c", f"sleep {1.3 * 2**n}; cat '{MELT}'"]) for n in range(7)]
    return [replace(each, start=starts[0], longer=starts[1:] if name else []) for each in plan]


@needs_ucx
@pytest.mark.slow
def test_runs_are_made_longer_until_two_rows_fit(block):
    arms = longer(treatments(["off", "on"], [], {"message_b": 1 << 20}), "sleep")
    run = block(treatments=arms, warmups=1, lengthened_by="sleep").done()
    found = [(each["pair"], each["arm"], each["elapsed_s"]) for each in run.samples()]
    # By hand: rows come every second, and 1.3 s must be doubled once to reach 2 s.
    assert [each[0] for each in found] == [-1, -2, 0, 0]
    assert 1.3 < found[0][2] < 2.0
    assert all(2.6 < elapsed_s < 5.2 for _, _, elapsed_s in found[1:])
    on = run.sample()
    assert on["outcome"] == "kept"
    assert any("sleep times 2" in note for note in on["notes"])
    assert run.samples()[0]["notes"] == [each for each in on["notes"] if "lengthened" not in each]
    # The case's next block begins with that length, whatever its own warm-up would have been.
    again = block(treatments=arms, warmups=1, lengthened_by="sleep", block=1)
    again.done()
    assert [each["elapsed_s"] > 2.6 for each in again.samples()[4:]] == [True] * 3


@needs_ucx
@pytest.mark.slow
def test_a_check_that_cannot_be_lengthened_is_refused_before_it_runs(block):
    arms = longer(treatments(["off", "on"], [], {"message_b": 1 << 20}), "")
    run = block(treatments=arms, warmups=1)
    assert run.finish() == 1
    assert [each["pair"] for each in run.samples()] == [-1]
    assert run.state()["state"] == "run_too_short"
    assert re.fullmatch(
        r"a run takes 1\.\d s, and 2 rows of the writers (2|2\.\d) s; .*",
        run.state()["reason"],
    )


@needs_ucx
def test_reads_are_distinguished_from_writes(block):
    reads = {"injector": "ucx_read", "direction": "read", "buffer_node": 0}
    run = block(arms=["off", "on"], writes=reads).done()
    sample = run.sample()
    (reader,) = sample["writers"]
    assert (reader["injector"], reader["direction"]) == ("ucx_read", "read")
    assert reader["rate_b_s"] > 1e7
    # The target's own buffer and the origin's, each mapped by its own process alone.
    assert reader["target_buffers_b"]["0"] >= 1 << 26
    assert reader["origin_buffers_b"]["0"] >= 1 << 26


@needs_ucx
def test_buffers_on_a_node_that_is_not_there(block):
    run = block(arms=["off", "on"], writes={"buffer_node": 1023})
    assert run.finish() == 1
    assert run.state()["state"] == "injector_never_ready"
    assert "NUMA node 1023: this host has 0" in run.state()["reason"]


@needs_ucx
@pytest.mark.slow
def test_a_killed_writer_gives_a_rejected_sample_and_the_run_is_repeated(block):
    run = block(
        arms=["off", "on"], demand=demand(retries=2), command=["sh", "-c", f"sleep 2; cat '{MELT}'"]
    )
    run.started("0-on-0")
    (writer,) = run.processes(ORIGIN)
    os.kill(writer, signal.SIGKILL)
    run.done()
    on = [sample for sample in run.samples() if sample["arm"] == "on"]
    assert [sample["outcome"] for sample in on] == ["injector_died", "kept"]
    assert on[0]["fom"] is None
    assert "origin side ended" in on[0]["reason"]


def stop_for(pids, length_s):
    """Stop processes for a while, as somebody else would."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(length_s)  # the subject of the test, not a wait for a condition
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


@needs_ucx
@pytest.mark.slow
def test_a_writer_that_is_stopped_within_its_window_is_seen_in_the_targets_memory(block):
    """Its rows come as before, one of them a little late: by `late_rows` it would be accepted."""
    run = block(
        arms=["off", "on"],
        demand=demand(late_rows=10),
        writes={"message_b": 1 << 20},
        command=["sh", "-c", f"sleep 4; cat '{MELT}'"],
    )
    run.started("0-on-0")
    stop_for(run.processes(ORIGIN), 1.5)
    run.done()
    sample = run.sample()
    assert sample["outcome"] == "rejected"
    assert "wrote nothing for 1." in sample["reason"]
    assert "(the target's memory); allowed: 0.5 s" in sample["reason"]
    assert sample["fom"] == 1.12089  # the first attempt's figure stays known
    assert 0.5 < sample["writers"][0]["overwritten_share"] < 0.95


@needs_ucx
def test_the_counters_of_the_node_come_with_runs_of_all_arms(block, tmp_path):
    """The kernel's context switches, read by the application itself at its start and end."""
    seen = tmp_path / "seen"
    note = f"awk '/^ctxt/ {{print $2}}' /proc/stat >> '{seen}'"
    before = context_switches()
    run = block(arms=["off", "on"], command=["sh", "-c", f"{note}; sleep 1; {note}; cat '{MELT}'"])
    run.done()
    assert [(each["outcome"], each["reason"]) for each in run.samples()] == [("kept", None)] * 2
    most = context_switches() - before
    rows = [json.loads(line) for line in (run.run_dir / "counters/melt.jsonl").open()]
    of_arm = {
        sample["arm"]: {row["event"]: row for row in rows if row["key"] == sample["key"]}
        for sample in run.samples()
    }
    assert sorted(of_arm) == ["off", "on"]
    at = [int(line) for line in seen.read_text().split()]
    first, second = at[1] - at[0], at[3] - at[2]
    by_start = sorted(run.samples(), key=lambda sample: sample["start_s"])
    for sample, least in zip(by_start, (first, second), strict=True):
        row = of_arm[sample["arm"]]["context-switches"]
        assert least <= row["value"] <= most
        assert {**row, "value": 0} == {
            **{"key": sample["key"], "tool": "node", "rank": 0, "event": "context-switches"},
            **{"value": 0, "unit": "count", "state": "counted", "running_share": None},
        }
    # The origin copies all the time, and no process writes without traffic.
    used_s = {arm: of_arm[arm]["writers-time"]["value"] for arm in of_arm}
    assert used_s["off"] == 0 < used_s["on"]
    # What the node lacks is in the block's provenance, once.
    (record,) = (json.loads(path.read_text()) for path in run.run_dir.glob("provenance/*.json"))
    (facts,) = record["nodes"].values()
    assert ("pressure" in facts["absent_counters"]) == (not Path("/proc/pressure/cpu").exists())
    assert "interrupts" not in facts["absent_counters"]


def context_switches() -> int:
    """Of this host since its boot."""
    lines = Path("/proc/stat").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("ctxt ")).split()[1])


def test_a_conductor_that_stood_still_accepts_no_run(block, tmp_path):
    """Of a suspended job neither the time nor the writers' rows can be trusted."""
    gate = tmp_path / "gate"
    run = block(command=["sh", "-c", f"until test -e '{gate}'; do sleep 0.1; done; cat '{MELT}'"])
    run.started("0-off-0")
    stop_for(run.processes(), 3.0)  # conductor, agent and application
    gate.touch()
    run.done()
    (sample,) = run.samples()
    assert sample["outcome"] == "rejected"
    assert sample["reason"].startswith("the conductor did not run ")
    assert sample["elapsed_s"] > 2.5


#: Read by each Python that starts: the wall clock is set back by an hour once a file is there.
_SET_BACK = """
import os, time
real = time.time
time.time = lambda: real() - (3600.0 if os.path.exists({file!r}) else 0.0)
"""


@pytest.mark.slow
def test_a_clock_that_is_set_back_between_two_runs_moves_no_run(block, tmp_path):
    modules, file = tmp_path / "modules", tmp_path / "set_back"
    modules.mkdir()
    (modules / "sitecustomize.py").write_text(_SET_BACK.format(file=str(file)))
    run = block(python_path=str(modules), pairs=3, demand=demand(retries=1))
    run.wait_until(lambda: len(run.samples()) == 1, 60)
    file.touch()
    run.done()
    samples = run.samples()
    assert [each["pair"] for each in samples if each["outcome"] == "kept"] == [0, 1, 2]
    # Only a run during which the clock moved is rejected: its application may have read it.
    rejected = [each["reason"] for each in samples if each["outcome"] != "kept"]
    assert len(rejected) <= 1
    assert all("the wall clock moved by -3600.0 s" in reason for reason in rejected)
    for before, after in pairwise(samples):
        assert after["start_s"] >= before["start_s"] + before["elapsed_s"]
        assert after["start_s"] < before["start_s"] + before["elapsed_s"] + 60.0


@pytest.mark.parametrize(
    ("command", "outcome", "reason"),
    [
        (["sh", "-c", "echo lost atoms >&2; exit 3"], "application_failed", "exit status 3: lost"),
        (["sleep", "60"], "application_hung", "did not end within 0.5 s"),
        (["echo", "hello"], "no_fom", "the output has no 'Loop time'"),
        (["no-such-program"], "application_failed", "no-such-program: No such file"),
    ],
)
def test_an_application_that_fails_is_repeated_as_often_as_allowed(block, command, outcome, reason):
    run = block(command=command, demand=demand(run_timeout_s=0.5, retries=1))
    assert run.finish() == 1
    samples = run.samples()
    assert [(each["attempt"], each["outcome"]) for each in samples] == [(0, outcome), (1, outcome)]
    assert reason in samples[1]["reason"]
    assert run.state()["state"] == outcome
    assert reason in run.err
    assert "Traceback" not in run.err


def test_a_block_ends_at_its_limit_in_the_midst_of_a_run(block):
    run = block(arms=("off", "on"), command=["sleep", "60"], limit_s=3.0)
    assert run.finish() == 1
    assert (run.state()["state"], run.samples()) == ("out_of_time", [])
    assert 3.0 <= run.state()["finished_s"] - run.state()["started_s"] < 25
    assert run.processes() == []


def test_copies_of_an_application_are_not_taken_for_its_ranks(block):
    """What `srun` starts if it uses another MPI than the application: copies of one rank each."""
    run = block(command=["sh", "-c", f"cat '{MELT}' '{MELT}'"], start={"ranks": 2})
    assert run.finish() == 1
    (sample,) = run.samples()
    assert sample["outcome"] == "no_fom"
    assert "ran with 1 ranks, not 2" in sample["reason"]
    assert block(command=["cat", str(MELT)], start={"ranks": 1}, case="one").finish() == 0


def test_what_keeps_agents_from_starting_is_reported_at_once(block):
    refusal = "srun: error: Invalid --het-group argument"
    began_s = time.monotonic()
    run = block(agent_launcher=["sh", "-c", f"echo '{refusal}' >&2; exit 1"])
    assert run.finish() == 3
    assert time.monotonic() - began_s < 60  # agents are given 120 s to call
    assert run.state()["state"] == "machine_failed"
    assert run.state()["reason"].endswith(f"agents.log: {refusal}")
    assert "Traceback" not in run.err


def test_outputs_counts_program_and_modules_are_named_by_their_samples(block, monkeypatch):
    monkeypatch.setenv("LOADEDMODULES", "gcc/13.2.0:openmpi/5.0.8")
    run = block(command=["cat", str(MELT)], program="cat", modules=["openmpi"]).done()
    (sample,) = run.samples()
    name = "logs/melt/0/0-off-0.out"
    assert sample["logs"] == {name: hashlib.sha256(MELT.read_bytes()).hexdigest()}
    assert not (run.run_dir / name).exists()
    assert gzip.decompress((run.run_dir / f"{name}.gz").read_bytes()) == MELT.read_bytes()
    counters = run.run_dir / "counters/melt.jsonl"
    of_run = hashlib.sha256(counters.read_bytes()).hexdigest() if counters.exists() else None
    assert sample["counters_sha256"] == of_run
    (record,) = (run.run_dir / "provenance").glob("*.json")
    found = json.loads(record.read_text())
    assert found["modules"] == ["gcc/13.2.0", "openmpi/5.0.8"]
    cat = os.path.realpath(shutil.which("cat"))
    assert (found["program"]["name"], found["program"]["path"]) == ("cat", cat)
    assert found["program"]["sha256"] == hashlib.sha256(Path(cat).read_bytes()).hexdigest()


@pytest.mark.parametrize("whose", ["agent", "launcher"])
def test_a_killed_agent_is_not_told_as_a_failed_node(block, whose):
    """The launcher is a shell here."""
    launcher = ["sh", "-c", '"$@"; exit $?', "sh"]
    running = block(pairs=5, agent_launcher=launcher)
    running.wait_until(running.samples)
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in running.processes()}
    is_agent = {pid: "nimc.node.agent" in text for pid, text in commands.items()}
    shell = next(pid for pid, text in commands.items() if is_agent[pid] and text.startswith("sh"))
    agent = next(pid for pid in commands if is_agent[pid] and pid != shell)
    os.kill(agent if whose == "agent" else shell, signal.SIGKILL)
    if whose == "launcher":  # Slurm leaves them running if srun is killed
        os.kill(agent, signal.SIGKILL)
    assert running.finish() == 3
    state = running.state()
    assert state["state"] == "agent_failed"
    assert "is gone" in state["reason"]
    assert ("SIGKILL" in state["reason"]) == (whose == "launcher")


@pytest.mark.slow
def test_a_control_is_accepted_whatever_the_application_leaves_to_it(block):
    cpu = min(os.sched_getaffinity(0))
    busy = "python3 -S -c 'while True: pass'"
    hog = f"for _ in 1 2 3 4; do timeout 4 taskset -c {cpu} {busy} & done; wait; cat '{MELT}'"
    run = block(
        arms=["off", "spin"],
        command=["sh", "-c", hog],
        demand=demand(min_share=0.9),
        origin_cpus=[cpu],
    )
    run.done()
    sample = run.sample("spin")
    assert (sample["outcome"], sample["reason"]) == ("kept", None)
    (control,) = sample["writers"]
    # By hand: a fifth of the processor, or half of it if the kernel shares it out by session.
    assert 0.02 < control["cpu_share"] < 0.7


def test_a_control_that_is_stopped_is_rejected(block):
    application = ["sh", "-c", f"sleep 3; cat '{MELT}'"]
    running = block(arms=["off", "spin"], command=application, demand=demand(min_share=0.05))
    (busy,) = running.wait_until(lambda: running.processes("while True: pass"))
    running.wait_until(lambda: running.processes("sleep\0003"))
    os.kill(busy, signal.SIGSTOP)
    running.done()
    sample = running.sample("spin")
    assert re.fullmatch(
        r"control 0 computed nothing from second \d\.\d of the window",
        sample["reason"],
    )


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
@needs_ucx
@pytest.mark.slow
def test_nothing_outlives_a_conductor_that_is_stopped(block, signum):
    run = block(arms=["off", "on"], pairs=50)
    run.wait_until(lambda: len(run.samples()) >= 2, 60)
    run.process.send_signal(signum)
    code = run.finish()
    run.wait_until(lambda: not run.processes(), 10)
    assert [each["reason"] for each in run.samples() if each["outcome"] != "kept"] == []
    if signum is not signal.SIGKILL:
        assert code == 143
        assert run.state()["state"] == "cancelled"


def test_a_block_does_not_go_on_without_its_owner(block):
    owner = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "60")
    run = block(command=["sleep", "30"], owner_pid=owner)
    run.wait_until(lambda: run.processes("sleep"))
    os.kill(owner, signal.SIGKILL)
    os.waitpid(owner, 0)
    assert run.finish() == 143


def test_an_unwritable_folder_is_reported_in_one_line(block):
    run = block(nimc_dir="/proc/nowhere")
    assert run.finish() == 3
    assert "/proc/nowhere" in run.err
    assert "Traceback" not in run.err


@needs_ucx
@pytest.mark.slow
def test_short_writes_under_a_timetable_on_one_host(block):
    short = ShortWrites(length_s=0.4, messages=4, tolerance_s=1.0, allowed_share=0.9)
    run = block(
        arms=["off", "daly"],
        scheduled={"daly": 1},
        short=short,
        command=["sh", "-c", f"sleep 3; cat '{MELT}'"],
    )
    run.done()
    sample = run.sample("daly")
    assert sample["outcome"] == "kept", sample["reason"]
    table = sample["timetable"]
    assert table["planned"] >= 7  # 3 s of writes of 0.4 s
    # A write planned just before the run may be made, late, within it.
    assert 1 <= table["done"] <= table["planned"] + 1
    assert table["unplanned"] == 0
    assert table["bytes_b"] == table["done"] * 4 * (1 << 26)
    (writer,) = sample["writers"]
    assert writer["transport"] == "shared memory"
    assert writer["bytes_b"] > 0


def test_an_arm_without_writers_runs_with_none_and_says_so(block):
    run = block(
        arms=["off", "daly"],
        scheduled={"daly": 0},
        short=ShortWrites(),
        command=["cat", str(MELT)],
    )
    run.done()
    sample = run.sample("daly")
    assert sample["outcome"] == "kept"
    assert sample["writers"] == []
    assert sample["timetable"]["writers"] == sample["timetable"]["planned"] == 0
    assert "daly: 0 writers at a time on 1 nodes; ran without writers" in sample["notes"]


def test_a_module_that_is_missing_fails_by_name_before_any_run(block, monkeypatch):
    """With `melt` on PATH, another program of that name was measured in its place."""
    monkeypatch.setenv("LOADEDMODULES", "gcc/13.2.0")
    run = block(modules=["gcc/13", "hpccg/9.9"])
    assert run.finish() == 3
    assert run.samples() == []
    assert run.state()["state"] == "machine_failed"
    reason = run.state()["reason"]
    assert reason.startswith("module hpccg/9.9 ")
    assert "; loaded: gcc/13.2.0" in reason


def state_of(pid):
    """The state of a process: T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


SLEEPS = ["sh", "-c", f"sleep 3; cat '{MELT}'"]


def origins_while(run, arms):
    """Treatment -> writing processes and their states, while its first run's application runs."""
    found = {}
    order = [each.name for each in run.plan.order(0)]
    for arm in sorted(arms, key=order.index):
        run.started(f"0-{arm}-0")
        found[arm] = {pid: state_of(pid) for pid in run.processes(ORIGIN)}
    return found


@needs_ucx
@pytest.mark.slow
def test_writers_start_once_a_block_and_are_held_in_runs_without_writes(block):
    run = block(arms=["off", "on", "aa"], command=SLEEPS)
    found = origins_while(run, ["off", "on", "aa"])
    run.done()
    assert {each["outcome"] for each in run.samples()} == {"kept"}
    assert len({frozenset(each) for each in found.values()}) == 1  # the same process in all
    states = {arm: set(each.values()) for arm, each in found.items()}
    assert states["off"] == states["aa"] == {"T"}
    assert states["on"] != {"T"}
    on = run.sample()
    assert on["writers"][0]["overwritten_share"] == 1.0


@needs_ucx
@pytest.mark.slow
@pytest.mark.parametrize("fit", [True, False])
def test_writers_that_are_not_held_or_do_not_fit_into_memory_start_for_their_run(
    block, tmp_path, fit
):
    if not fit:  # a node none of whose memory is for held writers
        patch = "from nimc.node import allocation\nallocation._HELD_SHARE = 0.0\n"
        (tmp_path / "sitecustomize.py").write_text(patch)
    writes = {"held": not fit}
    run = block(arms=["off", "on"], command=SLEEPS, writes=writes, python_path=str(tmp_path))
    found = origins_while(run, ["off", "on"])
    run.done()
    assert (found["off"], len(found["on"])) == ({}, 1)
    said = [any("exceed a quarter" in note for note in each["notes"]) for each in run.samples()]
    assert said.count(True) == (0 if fit else 1)
    assert any("exceed a quarter" in note for note in run.sample()["notes"]) == (not fit)


@needs_ucx
@pytest.mark.slow
def test_the_next_block_on_the_same_nodes_takes_over_the_rate_alone(block):
    for number in range(2):
        run = block(arms=["off", "on"], command=SLEEPS, block=number)
        run.done()
    on = [each for each in run.samples() if each["arm"] == "on"]
    assert [(each["block"], each["outcome"]) for each in on] == [(0, "kept"), (1, "kept")]
    first, second = (each["writers"][0]["rate_alone_b_s"] for each in on)
    assert first == second > 0


@needs_ucx
@pytest.mark.slow
def test_a_held_writer_that_runs_rejects_the_run(block):
    run = block(arms=["off", "on"], command=SLEEPS, demand=demand(retries=1))
    run.started("0-off-0")
    (held,) = run.processes(ORIGIN)
    os.kill(held, signal.SIGCONT)
    run.done()
    # It is suspended again before the run is repeated.
    off = [(each["outcome"], each["reason"]) for each in run.samples() if each["arm"] == "off"]
    assert off == [("rejected", "1 held writer ran within the run"), ("kept", None)]


@needs_ucx
@pytest.mark.slow
def test_a_writer_that_was_killed_while_held_is_started_anew(block):
    run = block(arms=["off", "on"], pairs=2, command=SLEEPS)
    run.started("0-off-0")
    (held,) = run.processes(ORIGIN)
    os.kill(held, signal.SIGKILL)
    run.done()
    assert {each["outcome"] for each in run.samples()} == {"kept"}
    assert [each["arm"] for each in run.samples()].count("on") == 2


@needs_ucx
@pytest.mark.slow
def test_nothing_is_left_stopped_if_an_agent_is_killed(block):
    run = block(arms=["off", "on"], pairs=5, command=SLEEPS)
    run.started("0-off-0")
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in run.processes()}
    (agent,) = (pid for pid, text in commands.items() if "nimc.node.agent" in text)
    assert [state_of(pid) for pid in run.processes(ORIGIN)] == ["T"]
    os.kill(agent, signal.SIGKILL)
    assert run.finish() == 3
    run.wait_until(lambda: not run.processes(), 10)
