"""Single runs, whose conductor is in this process: lead-in, application, writers, records.

Agents and writers are stand-ins. A run without writes is *silent*. The *rate alone* of a writer is
the rate that it reaches without an application.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import TypeAdapter

from conductor.block import application
from conductor.block.allocation import Allocation
from conductor.block.alone_rates import AloneRates, MeasuredRates, row_interval_s
from conductor.block.application import LeadIn, Run, RunFiles
from conductor.block.conductor import (
    repeat_until_accepted,
    require_length,
    stop_if_all_rejected,
    warm_up,
)
from conductor.block.hub import AgentGoneError, WriterState
from conductor.block.readers import Fom, FomError, Readers, ToolError
from conductor.block.runs import (
    BlockError,
    BlockRunner,
    node_counter_rows,
    summed_nodes,
    unbound_notes,
)
from conductor.block.schedule import NotReadyError
from conductor.block.store import Store, read_notes, write_note
from conductor.judge import length
from conductor.judge.judge import judge
from conductor.judge.series import WriterSeries, read
from conductor.messages import WatchRecord
from conductor.readings import CounterSample, MeterRecord, NodeSeries, RateRow
from records import clock
from records.acceptance import AcceptanceLimits
from records.block_plan import ShortWrites
from records.errors import MachineError
from records.machine.node_counters import NodeCounter
from records.sample import CounterRow, NodeConditions
from records.treatment import Start, Treatment, Writes
from tests import made_writers
from tests.conductor.block_plans import PLAN
from tests.conductor.made_series import device, node
from tests.undisturbed import UNJUDGED

WRITES, OTHER = (
    Writes(injector="ucx", message_b=1 << 20),
    Writes(injector="perftest", message_b=1 << 16),
)
HERE = Allocation(["n1"], ["n1"])

# The lead-in: the time from the end of one run to the start of the next, the same before every run.
# The previous run ends at 100 s.


def lead_in(**needed_s):
    """Return the lead-in of a block; the writers of its long and short writes need `needed_s`."""
    lead = LeadIn()
    for kind, kind_needed_s in needed_s.items():
        lead.expect({"long": WRITES, "short": OTHER}[kind], kind_needed_s)
    return lead


def after_runs(*needed_s, expected_s=3.0):
    """Return the lead-in after runs whose writers needed `needed_s`; `expected_s` was expected."""
    lead = lead_in(long=expected_s)
    for run_needed_s in needed_s:
        lead.record_end(100.0)
        lead.record_ready(WRITES, 100.0 + run_needed_s)
    return lead


def wait_s(lead, now_s):
    """Return how long a run still waits whose long writes are ready at `now_s`."""
    lead.record_ready(WRITES, now_s)
    return lead.wait_s(now_s)


def test_a_silent_run_waits_as_long_as_writers_need():
    lead = lead_in(long=3.0)  # the lead-in is a twentieth longer
    assert (wait_s(lead, 100.0), lead.length_s(100.0)) == (0.0, None)  # the block's first run
    lead = lead_in(long=3.0)
    lead.record_end(100.0)
    assert lead.wait_s(100.1) == pytest.approx(3.05)  # a silent run has no writers to start
    assert wait_s(lead, 102.9) == pytest.approx(0.25)  # its writers were ready a little earlier
    assert lead.length_s(103.15) == pytest.approx(3.15)
    resting = LeadIn(2.0)
    resting.record_end(100.0)
    assert resting.wait_s(100.5) == 1.5
    resting.expect(WRITES, 3.0)  # the writers need longer than the requested rest
    assert resting.wait_s(100.5) == pytest.approx(1.05 * 3.0 - 0.5)
    nothing_needed = lead_in()
    nothing_needed.record_end(100.0)
    assert nothing_needed.wait_s(100.002) == 0.0


def test_a_slower_start_lengthens_the_lead_in_of_all_later_runs_but_not_its_own():
    lead = lead_in(long=3.0, short=1.0)
    lead.record_end(100.0)
    assert wait_s(lead, 105.0) == pytest.approx(0.25)
    lead.record_end(200.0)
    assert lead.wait_s(200.0) == pytest.approx(5.25)
    assert wait_s(lead, 213.0) == 0.0


@pytest.mark.parametrize(
    ("lead", "needed_s"),
    [
        (lead_in(long=3.0, short=8.0), 8.0),  # the slowest kind, even if others are much faster
        (after_runs(13.0), 3.0),  # a single delayed start does not lengthen later runs
        (after_runs(13.0, 3.1), 3.1),
        (after_runs(13.0, 12.0), 13.0),  # two slow starts are no delay: writers need so long
        (lead_in(long=13.0), 13.0),
        (after_runs(3.1, expected_s=13.0), 3.1),  # delayed only while rates alone were measured
    ],
)
def test_the_lead_in_is_what_writers_usually_need_and_a_twentieth(lead, needed_s):
    assert lead.required_s == pytest.approx(1.05 * needed_s)


# The length of runs.


@pytest.mark.parametrize(
    ("run_s", "row_s", "doublings"),
    [
        (2.0, 1.0, 0),
        (60.0, 1.0, 0),
        (1.9, 1.0, 1),
        (1.0, 1.0, 1),
        (0.9, 1.0, 2),
        (0.4, 3.2, 4),
        (0.001, 0.0, 0),
    ],
)
def test_a_run_is_doubled_until_two_rows_fit(run_s, row_s, doublings):
    assert length.doublings_needed(run_s, length.LEAST_ROWS * row_s) == doublings


def test_rows_come_as_declared_or_later():
    # An emulated processor prints rows of one second 2.9 s apart. The last row comes after 9 s.
    reported = [RateRow(end - 1, end, 1.0) for end in (1.0, 3.9, 6.8, 15.8)]
    assert row_interval_s(reported, 1.0) == pytest.approx(2.9)
    assert row_interval_s([RateRow(end - 0.9, end, 1.0) for end in (1.0, 1.9, 2.8)], 1.0) == 1.0


def test_the_lengths_that_a_check_plans_are_those_that_a_block_can_note():
    assert length.MULTIPLES == [2, 4, 8, 16, 32, 64]
    for doublings in (*range(length.MOST_DOUBLINGS + 1), -1, 7):
        is_allowed = doublings in range(7)
        with nullcontext() if is_allowed else pytest.raises(ValueError, match="doublings"):
            TypeAdapter(length.Lengthening).validate_python({"doublings": doublings})


ALONE = MeasuredRates(
    targets=["n1"],
    origins=["n9"],
    writes=replace(WRITES, rate_share=0.25),
    rates_b_s=[5e9],
    counted_b_s={"n1": 5e9},
    row_s=1.2,
    needed_s=0.6,
)


@pytest.mark.parametrize(
    ("kind", "values", "damaged"),
    [
        (length.Lengthening, [length.Lengthening(2), length.Lengthening(3)], '{"doublings": 7}'),
        (
            list[MeasuredRates],
            [[ALONE], [ALONE, replace(ALONE, targets=["n2"])]],
            '[{"targets": ["n1"]}]',
        ),
    ],
)
def test_what_blocks_noted_comes_back_in_their_order(tmp_path, kind, values, damaged):
    assert read_notes(tmp_path, "note.json", kind) == []
    for block, value in enumerate(values):
        (tmp_path / str(block)).mkdir()
        write_note(tmp_path / str(block), "note.json", TypeAdapter(kind).dump_python(value))
    assert read_notes(tmp_path, "note.json", kind) == values
    for text in ("", "3", damaged):
        (tmp_path / "0/note.json").write_text(text)
        with pytest.raises(MachineError, match=r"0/note\.json: not what a block wrote; remove the"):
            read_notes(tmp_path, "note.json", kind)


def test_the_note_of_block_10_is_newer_than_that_of_block_2(tmp_path):
    for block in (2, 10):
        (tmp_path / str(block)).mkdir()
        write_note(tmp_path / str(block), "note.json", block)
    assert read_notes(tmp_path, "note.json", int) == [2, 10]


# The application.


def writer_series(writer=None, number=0, injector="ucx", **more):
    writer = writer or made_writers.writer(
        origin="n1", target="n1", address="", port=1, message_b=64
    )
    return WriterSeries(
        number=number,
        injector=injector,
        writer=writer,
        transport="shared memory",
        row_s=1.0,
        **more,
    )


class Hub:
    """A stand-in for agents and writers.

    Writers that are started have rows of one second at `rate_b_s`; the first began 9 s ago.
    """

    def __init__(self, rate_b_s=100.0, memory_b=1 << 30, end_reason=None, **changes):
        """`end_reason`: why the writers have ended; `changes`: fields of their series."""
        self.rate_b_s, self.end_reason, self.changes = rate_b_s, end_reason, changes
        self.addresses, self.facts = {"n1": "127.0.0.1"}, {"n1": {"memory_b": memory_b}}
        self.orders, self.states = [], []
        self.node = NodeSeries(node="n1")
        #: How long writers take to be suspended once, and have taken in all, seconds.
        self.hold_s = self.held_s = 0.0
        self.timeouts_s = []

    async def wait_for(self, condition, timeout_s):
        """Wait for a condition.

        Meanwhile, writers that have reported rows report a row every hundredth of a second.
        """
        self.timeouts_s.append(timeout_s)
        until_s = time.monotonic() + timeout_s
        while not condition() and time.monotonic() < until_s:
            await asyncio.sleep(0.01)
            for state in self.states:
                if state.rows:
                    end_s = state.rows[-1].end_s
                    state.rows.append(RateRow(end_s, end_s + 1, self.rate_b_s))
        return condition()

    async def start(self, injector, writers, timeout_s):
        self.orders.append("start")
        now_s = clock.now_s()
        rows = [RateRow(now_s + at_s, now_s + at_s + 1, self.rate_b_s) for at_s in range(-9, 30)]
        quarters = [quarter / 4 for quarter in range(-36, 120)]
        passed = [CounterSample(now_s + at_s, 1e6 + self.rate_b_s * at_s) for at_s in quarters]
        self.states = []
        for writer in writers:
            fields = {"rows": list(rows), "samples": list(passed), **self.changes}
            series = replace(writer_series(writer, injector=injector.name), **fields)
            self.states.append(WriterState(series, end_reason=self.end_reason))
        return self.states

    def resume(self, states):
        self.orders.append("resume")

    async def hold(self, states):
        self.orders.append("hold")
        self.held_s += self.hold_s

    async def stop(self, states):
        self.orders.append("stop")

    async def ask(self, orders, kind, action):
        for state in self.states:
            state.series.meter = MeterRecord(0, "the target's memory", in_memory=True)
        return {name: WatchRecord(self.node) for name in orders}


def figure_of(text):
    if "ranks" not in text:
        raise FomError("the output has no figure")
    ranks = float(text.split()[-1])
    return Fom(7.0, {"ranks": ranks}, ranks=ranks)


READERS = Readers("s", "lower", figure_of, lambda *_: [])
PRINTS = ["echo", "ranks 1"]
LOST = ("rejected", "perf: no file")


def a_run(**changes):
    return Run(treatment=Treatment(name="off"), pair=0, position=0, attempt=0, **changes)


@pytest.mark.parametrize(
    ("command", "ranks", "outcome", "reason"),
    [
        (PRINTS, 1, "accepted", None),
        (["sh", "-c", "echo lost atoms >&2; exit 3"], 1, "application_failed", "3: lost atoms"),
        (["sh", "-c", "echo no licence; exit 3"], 1, "application_failed", "3: no licence"),
        (["sh", "-c", "kill -SEGV $$"], 1, "application_failed", "-11 (Segmentation fault): it p"),
        # The application was compiled on a login node with -march=native. The compute nodes have
        # another processor.
        (["sh", "-c", "kill -ILL $$"], 1, "application_failed", "illegal instruction, as if comp"),
        (["sleep", "60"], 1, "application_hung", "did not end within 0.5 s"),
        (["echo", "hello"], 1, "no_fom", "the output has no figure"),
        (["no-such-program"], 1, "application_failed", "no-such-program: No such file"),
        # If `srun` uses another MPI than the application, it starts copies of one rank each.
        (PRINTS, 2, "no_fom", "ran with 1 rank, not 2"),
    ],
)
def test_how_an_application_ends(tmp_path, command, ranks, outcome, reason):
    start, run = Start(command=command, ranks=ranks), a_run()
    files = RunFiles(*(tmp_path / name for name in RunFiles._fields))
    allowed_s = 0.5 if outcome == "application_hung" else 60.0
    asyncio.run(application.run_application(run, start, HERE, files, Hub(), [], allowed_s))
    application.read_fom(run, start, files, READERS)
    assert (run.outcome, run.fom is not None) == (outcome, outcome == "accepted")
    assert reason is None if run.reason is None else reason in run.reason


def test_an_application_ends_with_its_writers_unless_it_has_ended_before(tmp_path):
    files = RunFiles(*(tmp_path / name for name in RunFiles._fields))
    state = WriterState(writer_series(number=3), end_reason="exit status 1")
    for command, reason in ((["sleep", "60"], "writer 3: exit status 1"), (["true"], None)):
        run, states = a_run(), [state] if reason else []
        asyncio.run(
            application.run_application(
                run, Start(command=command), HERE, files, Hub(), states, 60.0
            )
        )
        assert (run.outcome, run.reason) == ("injector_died" if reason else "accepted", reason)


def test_an_application_has_ended_when_the_loss_of_an_agent_is_reported(tmp_path):
    class Lost(Hub):
        async def wait_for(self, condition, timeout_s):
            while not (tmp_path / "pid").exists():
                await asyncio.sleep(0.01)
            raise AgentGoneError("the agent on n1 is gone")

    files = RunFiles(*(tmp_path / name for name in RunFiles._fields))
    start = Start(
        command=[
            "sh",
            "-c",
            f"echo $$ >{tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; exec sleep 60",
        ]
    )

    async def lose():
        with pytest.raises(AgentGoneError):
            await application.run_application(a_run(), start, HERE, files, Lost(), [], 60.0)
        return Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()

    assert not asyncio.run(lose())


@pytest.mark.parametrize(("until_s", "outcome"), [(12.0, "accepted"), (11.9, "injector_died")])
def test_a_writer_that_ended_must_have_rows_until_the_application_did(tmp_path, until_s, outcome):
    runner, _ = block(tmp_path, Hub())
    rows = [RateRow(9.0, until_s, 1.0)]
    states = [WriterState(writer_series(rows=rows), end_reason="killed")]
    run = a_run(start_s=10.0, elapsed_s=2.0)
    asyncio.run(runner.await_last_rate_rows(run, states))
    assert (run.outcome, run.reason or "writer 0: killed") == (outcome, "writer 0: killed")


# Whole runs.


LIMITS = {"min_share": 0.5, "retries": 2, "ready_timeout_s": 0.1, "pause_s": 60.0, **UNJUDGED}


def block(
    tmp_path,
    hub,
    writes=WRITES,
    number=0,
    limits: Mapping[str, object] = {},
    readers: Readers = READERS,
    **changes,
):
    """Return the runner of a block with the arms `off` and `on`, and the object that measures its
    rates alone."""
    on = Treatment(
        name="on", start=Start(command=PRINTS), writes=writes, role="effect", baseline="off"
    )
    changes = {**changes, "limits": AcceptanceLimits(**{**LIMITS, **limits})}
    arms = [Treatment(name="off", start=Start(command=PRINTS)), on]
    plan = replace(PLAN, treatments=arms, nimc_dir=str(tmp_path), block=number, **changes)
    plan.logs.mkdir(parents=True)
    runner = BlockRunner(plan, HERE, hub, "0" * 64, readers)
    return runner, AloneRates(runner)


@pytest.mark.parametrize(
    ("counted", "outcome", "reason"),
    [
        ([CounterRow(rank=1, event="cycles", value=7.0, unit="count")], "accepted", None),
        (ToolError("no file"), *LOST),
    ],
)
def test_what_a_tool_counted_is_stored_with_the_key_of_its_run(tmp_path, counted, outcome, reason):
    def read_counters(*request):
        assert request == ("perf", tmp_path / "logs/stream/0/counters/4-off-0", 2)
        if isinstance(counted, ToolError):
            raise counted
        return counted

    readers = Readers("s", "lower", figure_of if reason else None, read_counters)
    runner, _ = block(tmp_path, Hub(), readers=readers)
    start = Start(command=["sh", "-c", "test -d {counters} && echo ranks 2"], ranks=2, tool="perf")
    measuring = runner.measure(
        Run(treatment=Treatment(name="off", start=start), pair=4, position=2, attempt=0)
    )
    sample, rows, outputs = asyncio.run(measuring)
    assert (sample.outcome, sample.reason) == (outcome, reason)
    stored = [(row["key"], row["tool"], row["event"]) for row in rows]
    assert stored == ([(sample.key, "perf", "cycles")] if reason is None else [])
    # Without a figure of merit, the ReFrame check reads the output later, and stores it then.
    assert outputs == [
        *([tmp_path / "logs/stream/0/4-off-0.out"] if reason else []),
        tmp_path / "logs/stream/0/4-off-0.series.json",
    ]


def measured(runner, *arms):
    """Return the samples of one run of each of these arms."""
    treatments = {treatment.name: treatment for treatment in runner.plan.treatments}

    async def run_all():
        runs = [
            Run(treatment=treatments[arm], pair=pair, position=0, attempt=0)
            for pair, arm in enumerate(arms)
        ]
        return [(await runner.measure(run))[0] for run in runs]

    return asyncio.run(run_all())


def test_writers_are_started_once_and_held_between_their_runs(tmp_path):
    runner, rates = block(tmp_path, hub := Hub())
    asyncio.run(rates.learn(WRITES))
    first, off, second = measured(runner, "on", "off", "on")
    assert hub.orders == ["start", "hold", "resume", "hold", "resume", "hold"]
    assert [sample.outcome for sample in (first, off, second)] == ["accepted"] * 3, first.reason
    assert (off.writers, off.lead_in_s is None) == ([], False)
    (writer,) = second.writers
    assert (writer.rate_alone_b_s, writer.rate_b_s, writer.proof) == (100.0, 100.0, "memory")
    hub.states[0].end_reason = "origin side ended: exit status 1"  # while it is held
    restarted, resumed = measured(runner, "on", "on")
    assert hub.orders[6:] == ["stop", "start", "hold", "resume", "hold"]
    noted = "writers were started for this run: writer 0 ended while it was held (origin side ended"
    assert [note.startswith(noted) for note in restarted.notes].count(True) == 1
    assert not any("were started" in note for run in (second, resumed) for note in run.notes)


def test_a_rate_alone_is_computed_from_rows_that_a_device_could_count(tmp_path):
    """By hand: the last row that ended before counters were read, and three rows of a second."""
    _, rates = block(tmp_path, Hub())
    asyncio.run(rates.learn(WRITES))
    (writer,) = rates.series[WRITES].writers
    assert 4 <= len(writer.rows) < 10  # the writer had 39 more rows before


@pytest.mark.parametrize(
    ("writes", "memory_b", "noted"),
    [
        # By hand: two ends with two buffers of 1 MiB each are 4 MiB, a quarter of 16 MiB.
        (WRITES, 16 << 20, None),
        (WRITES, (16 << 20) - 1, "exceed a quarter of a node's memory"),
        # mpi_put can be held on one host.
        (Writes(injector="mpi_put", message_b=1 << 20), 1 << 30, None),
    ],
)
def test_writers_that_cannot_be_held_start_for_their_run(tmp_path, writes, memory_b, noted):
    runner, rates = block(tmp_path, hub := Hub(memory_b=memory_b), writes)
    asyncio.run(rates.learn(writes))
    (sample,) = measured(runner, "on")
    is_held = noted is None
    assert hub.orders == (
        ["start", "hold", "resume", "hold"] if is_held else ["start", "stop", "start", "stop"]
    )
    start_notes = [note for note in sample.notes if note.startswith("writers were started")]
    assert len(start_notes) == bool(noted)
    assert all(noted in note for note in start_notes)


def test_the_next_block_on_the_same_nodes_takes_over_the_rate_alone(tmp_path, monkeypatch):
    for number, rate_b_s in enumerate((100.0, 70.0)):
        runner, rates = block(tmp_path, hub := Hub(rate_b_s), number=number)
        hub.hold_s = 0.3
        let_time_pass_only_in_holds(monkeypatch, hub)
        asyncio.run(rates.learn(WRITES))
        assert runner.writers.alone_b_s == {WRITES: [100.0]}  # although they write less now
        assert hub.orders == ["start", "hold"]
        assert runner.rate_row_interval_s == 1.0
        # Between two runs, it takes 0.3 s to suspend the writers. Then they report two rows of a
        # second, of which only the second is used.
        assert runner.lead_in.required_s == pytest.approx(1.05 * 2.3)
    asyncio.run(rates.measure_again(WRITES))
    assert runner.writers.alone_b_s == {WRITES: [70.0]}


class Link(Hub):
    """A link whose rate depends on the number of queue pairs of all writers together."""

    def __init__(self, rates_b_s):
        """`rates_b_s`: number of queue pairs -> rate of the link."""
        super().__init__()
        self.rates_b_s = rates_b_s
        #: Number of queue pairs at each start of writers.
        self.started = []

    async def start(self, injector, writers, timeout_s):
        pairs = sum(injector.queue_pairs(writer) for writer in writers)
        self.started.append(pairs)
        self.rate_b_s = self.rates_b_s[pairs] / len(writers)
        return await super().start(injector, writers, timeout_s)


@pytest.mark.parametrize(
    ("injector", "rates_b_s", "link_b_s", "started", "alone_b_s"),
    [
        # By hand: 98 is less than 1.05 times 95, and 95 is 95 % of a link of 100.
        ("perftest", {1: 50.0, 2: 95.0, 4: 98.0}, None, [1, 2, 4, 2], [95.0]),
        ("perftest", {1: 50.0, 2: 95.0}, 100.0, [1, 2], [95.0]),
        ("perftest", {1: 50.0, 2: 95.0, 4: 98.0}, 101.0, [1, 2, 4, 2], [95.0]),
        ("perftest", {1: 100.0, 2: 104.0}, None, [1, 2, 1], [100.0]),
        ("perftest", {2**n: 2.0**n for n in range(6)}, None, [1, 2, 4, 8, 16, 32], [32.0]),
        # A program that opens only one queue pair is started once for each of them.
        ("ucx", {1: 50.0, 2: 95.0, 4: 98.0}, None, [1, 2, 4, 2], [47.5, 47.5]),
    ],
)
def test_queue_pairs_are_added_while_they_raise_the_rate(
    tmp_path, monkeypatch, injector, rates_b_s, link_b_s, started, alone_b_s
):
    monkeypatch.setattr("records.machine.devices.is_rdma", lambda name: name == "mlx5_0")
    full = Writes(injector=injector, message_b=1 << 16, devices=("mlx5_0",), queue_pairs=None)
    half = replace(full, rate_share=0.5)
    for number in (0, 1):  # the next block takes over the number
        hub = Link(rates_b_s)
        runner, rates = block(tmp_path, hub, full, number=number, link_rate_b_s=link_b_s)
        asyncio.run(rates.learn(full))
        assert hub.started == ([started[-1]] if number else started)
        assert runner.writers.alone_b_s[full] == alone_b_s
    asyncio.run(rates.learn(half))
    assert hub.started == [started[-1]] * 2
    (sample,) = measured(runner, "on")
    assert [writer.queue_pairs for writer in sample.writers] == (
        [started[-1]] if injector == "perftest" else [1] * started[-1]
    )


def test_queue_pairs_that_the_device_refuses_are_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr("records.machine.devices.is_rdma", lambda _: True)

    class Small(Link):
        async def start(self, injector, writers, timeout_s):
            self.end_reason = "Couldn't create QP" if writers[0].queue_pairs > 2 else None
            return await super().start(injector, writers, timeout_s)

    writes = Writes(injector="perftest", message_b=1 << 16, devices=("mlx5_0",), queue_pairs=None)
    runner, rates = block(tmp_path, hub := Small({1: 50.0, 2: 100.0, 4: 200.0}), writes)
    asyncio.run(rates.learn(writes))
    assert (hub.started, runner.writers.alone_b_s[writes]) == ([1, 2, 4, 2], [100.0])


def test_queue_pairs_are_added_until_all_rails_of_the_target_are_full(tmp_path, monkeypatch):
    """By hand: 130 is 65 % of two links of 100, although it exceeds one of them."""
    monkeypatch.setattr("records.machine.devices.is_rdma", lambda _: True)
    writes = Writes(
        injector="perftest", message_b=1 << 16, devices=("a", "b"), clients=2, queue_pairs=None
    )
    hub = Link({2: 130.0, 4: 196.0})
    runner, rates = block(tmp_path, hub, writes, link_rate_b_s=100.0)
    asyncio.run(rates.learn(writes))
    assert (hub.started, runner.writers.alone_b_s[writes]) == ([2, 4], [98.0, 98.0])


def test_no_writers_with_a_limited_rate_share_the_counter_of_a_device(tmp_path):
    """Each would be reported to write the bytes of both."""
    writes = Writes(
        injector="perftest", message_b=1 << 16, devices=("a",), clients=2, rate_share=0.25
    )
    _, rates = block(tmp_path, hub := Hub(), writes)
    with pytest.raises(BlockError, match=r"2 writers of perftest .* use a, whose counter"):
        asyncio.run(rates.learn(writes))
    assert hub.orders == []


@pytest.mark.parametrize("devices", [(), ("eth0",)])
def test_one_queue_pair_where_no_rdma_device_is_named(tmp_path, devices):
    writes = Writes(injector="ucx", message_b=1 << 16, devices=devices, queue_pairs=None)
    runner, rates = block(tmp_path, hub := Link({1: 100.0}), writes)
    asyncio.run(rates.learn(writes))
    assert (hub.started, runner.writers.alone_b_s[writes]) == ([1], [100.0])


def let_time_pass_only_in_holds(monkeypatch, hub):
    """Let time pass only while this hub's writers are held."""
    passed = SimpleNamespace(monotonic=lambda: hub.held_s)
    monkeypatch.setattr("conductor.block.alone_rates.time", passed)


@pytest.mark.parametrize(
    ("held", "ready_rows", "counted", "needed_s"),
    [
        # Rows take a second each. Writers that start anew have already reported their first row.
        # Writers that were held need one row more than `ready_rows`, since their first row after
        # the pause is not used. If their bytes are counted, a quarter of a second may do.
        (False, 1, False, 0.0),
        (False, 3, False, 2.0),
        (False, 1, True, 0.0),
        (True, 1, False, 2.0),
        (True, 3, False, 4.0),
        (True, 1, True, 0.25),
        (True, 3, True, 4),
    ],
)
def test_what_writers_need_between_two_runs(
    tmp_path, monkeypatch, held, ready_rows, counted, needed_s
):
    shared = {"counted_s": 0.25, "samples": [CounterSample(0.0, 0.0)]} if counted else {}
    hub = Hub(memory_b=16 << 20 if held else (16 << 20) - 1, **shared)
    let_time_pass_only_in_holds(monkeypatch, hub)
    runner, rates = block(tmp_path, hub, limits={"ready_rows": ready_rows})
    asyncio.run(rates.learn(WRITES))
    assert runner.lead_in.required_s == pytest.approx(1.05 * needed_s)


# Devices that update their counters rarely, as bnxt_re does once a second.


def slow_counters(monkeypatch, period_s):
    monkeypatch.setattr("conductor.block.runs.slowest_period_s", lambda _: period_s)


def test_runs_wait_until_devices_have_counted_what_writers_wrote(tmp_path, monkeypatch):
    """By hand: an update is overdue after one and a half periods of 0.2 s, which is 0.3 s."""
    slow_counters(monkeypatch, 0.2)

    class Holding(Hub):
        held_at_s = 0.0

        async def hold(self, states):
            await super().hold(states)
            self.held_at_s = clock.now_s()

    runner, rates = block(tmp_path, hub := Holding())
    asyncio.run(rates.learn(WRITES))
    for arms in (["off"], ["on", "off"]):
        sample = measured(runner, *arms)[-1]
        assert sample.start_s - hub.held_at_s > 0.3


def test_a_counted_rate_takes_longer_to_show_if_counters_are_slow(tmp_path, monkeypatch):
    """By hand: two periods of 0.2 s, and the 0.25 s that other counters need."""
    slow_counters(monkeypatch, 0.2)
    hub = Hub(counted_s=0.25, samples=[CounterSample(0.0, 0.0)])
    let_time_pass_only_in_holds(monkeypatch, hub)
    runner, rates = block(tmp_path, hub)
    asyncio.run(rates.learn(WRITES))
    assert runner.lead_in.required_s == pytest.approx(1.05 * 0.65)


def test_rates_alone_are_measured_as_long_as_slow_counters_need(tmp_path, monkeypatch):
    """By hand: a period of 0.1 s is half of the allowed difference, 4 %, in 5 s.

    So a rate is computed from five rows of a second. The row before them, the last that ended
    before counters were read, is kept as well. If several numbers of queue pairs are tried, only
    the best number is measured for so long, in another measurement.
    """
    slow_counters(monkeypatch, 0.1)
    monkeypatch.setattr("records.machine.devices.is_rdma", lambda _: True)
    full = Writes(injector="perftest", message_b=1 << 16, devices=("bnxt_re0",), queue_pairs=None)
    hub, limits = Link({1: 50.0, 2: 95.0, 4: 98.0}), {"counter_share": 0.04}
    runner, rates = block(tmp_path, hub, full, limits=limits)
    asyncio.run(rates.learn(full))
    assert (hub.started, runner.writers.alone_b_s[full]) == ([1, 2, 4, 2], [95.0])
    (writer,) = rates.series[full].writers
    assert len(writer.rows) >= 6
    assert runner.shortest_run() == (5.0, "a byte counter that is updated every 0.1 s needs 5 s")


@pytest.mark.parametrize(
    ("rate_b_s", "ended", "outcome", "reason"),
    [
        (51.0, None, "accepted", None),
        (49.0, None, "rejected", "not at speed within 0 s"),
        (100.0, "exit status 1", "injector_never_ready", "writer 0: exit status 1"),
    ],
)
@pytest.mark.parametrize("writes", [WRITES, replace(WRITES, rate_b_s=100.0)])
def test_a_run_needs_writers_at_speed(tmp_path, rate_b_s, ended, outcome, reason, writes):
    runner, _ = block(tmp_path, hub := Hub(rate_b_s, end_reason=ended), writes)
    runner.writers.alone_b_s[writes] = [100.0]
    (sample,) = measured(runner, "on")
    assert (sample.outcome, sample.reason) == (outcome, reason)
    assert hub.orders == ["start", "stop" if ended else "hold"]


def test_a_control_is_accepted_if_the_application_leaves_anything_to_it(tmp_path):
    runner, rates = block(tmp_path, Hub(0.02), control := Writes(injector="spin", message_b=0))
    asyncio.run(rates.learn(control))
    (sample,) = measured(runner, "on")
    assert (sample.outcome, sample.reason) == ("accepted", None)
    assert sample.writers[0].cpu_share == pytest.approx(0.02, rel=1e-4)


def test_bytes_that_pass_reject_runs_in_which_nothing_writes(tmp_path):
    """By hand: the writer reaches 100 B/s alone. 2 % of this are 2 B in a run of a second."""
    runner, rates = block(tmp_path, hub := Hub(), limits={"foreign_share": 0.02})
    asyncio.run(rates.learn(WRITES))
    hub.node = node(device(3, 0, over_s=1.0), over_s=1.0)
    off, again = measured(runner, "off", "off")
    assert (off.outcome, again.outcome) == ("rejected", "rejected")
    assert "although nothing wrote" in off.reason
    # The run's series are stored beside its output. Judged again, they give the same verdict.
    stored = read((tmp_path / "logs/stream/0/0-off-0.series.json").read_bytes())
    assert stored.limits == runner.plan.limits
    assert stored.series.silent == ["received"]
    window_s = (off.start_s, off.start_s + off.elapsed_s)
    assert judge(stored.series, window_s, stored.limits).reasons == [off.reason]


@pytest.mark.parametrize("writers", [0, 1])
def test_a_timetable_is_planned_for_longer_runs_and_the_sample_says_why_it_cannot_begin(
    tmp_path, writers
):
    scheduled = replace(WRITES, scheduled=writers)
    runner, _ = block(tmp_path, Hub(), scheduled, short=ShortWrites())

    class Schedule:
        alone_b_s, lengths_s = 0.0, []

        async def begin(self, timetable_s, *_):
            self.lengths_s.append(timetable_s)
            raise NotReadyError("n1: no port")

        def length_note(self):
            return None

    runner.schedules = {scheduled: Schedule()}
    runner.lead_in.expect(WRITES, 0.02)
    (sample,) = measured(runner, "on")
    for longest_s in (7.0, 1e9):
        runner.longest_s = longest_s
        measured(runner, "on")
    # A timetable lasts ten times the longest run, but at most as long as the timeout of a run. The
    # timeout is also used if no run has ended yet. The lead-in is added.
    assert Schedule.lengths_s == pytest.approx([3600.021, 70.021, 3600.021] if writers else [])
    expected = ("injector_never_ready", "n1: no port") if writers else ("accepted", None)
    assert (sample.outcome, sample.reason) == expected
    assert (sample.timetable is None) == bool(writers)
    assert any("0 writers at a time" in note for note in sample.notes) == (not writers)


@pytest.mark.parametrize(
    ("alone_b_s", "remeasured_b_s", "last", "times"),
    [
        (65.0, 98.0, (1, "accepted"), 1),
        (98.0, 0.0, (0, "accepted"), 0),
        (65.0, 60.0, (2, "rejected"), 3),  # it is measured again even after the last attempt
    ],
)
def test_a_disturbed_rate_alone_is_measured_as_often_as_it_is_disturbed(
    tmp_path, alone_b_s, remeasured_b_s, last, times
):
    """The writers reach 100 B/s in the runs. At most 125 % of their rate alone is allowed."""
    runner, _ = block(tmp_path, Hub(100.0), limits={"max_share": 1.25})
    runner.writers.alone_b_s[WRITES], remeasured_writes = [alone_b_s], []

    class Rates:
        async def measure_again(self, writes):
            runner.writers.alone_b_s[writes] = [remeasured_b_s]
            remeasured_writes.append(writes)

    run = Run(treatment=runner.plan.treatments[1], pair=0, position=0, attempt=0)
    store = Store(tmp_path, "stream")
    sample = asyncio.run(repeat_until_accepted(run, runner, store, Rates()))
    assert ((sample.attempt, sample.outcome), remeasured_writes) == (last, [WRITES] * times)


def test_without_a_warm_up_the_first_run_must_be_long_enough(tmp_path):
    runner, _ = block(tmp_path, Hub())
    runner.rate_row_interval_s = 0.45
    require_length(SimpleNamespace(elapsed_s=0.9), runner, "wait")
    with pytest.raises(BlockError, match=r"a run takes 0\.89 s, but 2 rows .* take 0\.9 s; wait"):
        require_length(SimpleNamespace(elapsed_s=0.89), runner, "wait")


@pytest.mark.parametrize("lengths", [3, 1])
def test_runs_are_made_longer_until_two_rows_fit(tmp_path, monkeypatch, lengths):
    """By hand: two rows of 0.45 s take 0.9 s, so a run of 0.25 s must be doubled twice."""
    starts = [Start(command=["echo", f"ranks {2**n}"]) for n in range(lengths)]
    ends_s = iter([0.0, 0.25, 100.0, 101.0])  # start and end of two runs of 0.25 s and 1 s
    monkeypatch.setattr(application, "time", SimpleNamespace(monotonic=lambda: next(ends_s)))
    runner, rates = block(tmp_path, Hub(), lengthened_by="steps" if lengths > 1 else "")
    arms = [replace(arm, start=starts[0], longer=starts[1:]) for arm in runner.plan.treatments]
    runner.plan, runner.rate_row_interval_s = replace(runner.plan, treatments=arms), 0.45
    store = Store(tmp_path, "stream")
    warming = warm_up(runner, store, rates)
    if lengths == 1:
        message = r"2 rows of the writers take 0\.9 s; .* larger problem"
        with pytest.raises(BlockError, match=message):
            asyncio.run(warming)
        return
    asyncio.run(warming)
    # The next blocks of the case begin with this length.
    stored = json.loads((tmp_path / "logs/stream/0/length.json").read_text())
    assert (stored, runner.doublings) == ({"doublings": 2}, 2)
    later, _ = block(tmp_path, Hub(), number=2)
    later.plan = replace(runner.plan, block=2, warmups=0)
    asyncio.run(warm_up(later, store, rates))
    assert later.doublings == 2
    lines = (tmp_path / "samples/stream.jsonl").read_text().splitlines()
    first, last = map(json.loads, lines)
    assert [(sample["pair"], sample["fom_extra"]["ranks"]) for sample in (first, last)] == [
        (-1, 1), (-2, 4)
    ]  # fmt: skip
    (longer,) = set(last["notes"]) - set(first["notes"])
    assert "steps times 4" in longer


@pytest.mark.parametrize(
    ("outcomes", "reason", "advice"),
    [
        (
            ["rejected"] * 7,
            "n1: foreign processes used 1",
            "wait until they end, or raise the limit",
        ),
        (
            ["rejected"] * 7,
            "writer 0 wrote at 249 % of its rate alone; at most 125 % is allowed: the rate alone"
            " was disturbed",
            "the rate alone has been measured again; end what else runs",
        ),
        (
            ["rejected"] * 7,
            "writer 0 wrote at 9 % of its rate alone from second 1.0 of the window",
            "leave the writers a core, or lower the limit min_share",
        ),
        (["rejected"] * 7, "the wall clock moved", "docs/method.md#what-counts and"),
        (["rejected"] * 6, "n1: foreign processes used 1", None),
        (["accepted", *["rejected"] * 6], "n1: foreign processes used 1", None),
    ],
)
def test_a_block_whose_first_runs_are_all_rejected_ends_with_what_to_do(outcomes, reason, advice):
    outcomes = [*outcomes, "rejected"]
    if advice is None:
        stop_if_all_rejected(PLAN, outcomes, reason)
        return
    message = f"^all 8 runs were rejected, the last one: {reason}; {advice}"
    with pytest.raises(BlockError, match=message):
        stop_if_all_rejected(PLAN, outcomes, reason)


def test_an_injector_that_reports_nothing_ends_the_block(tmp_path):
    runner, rates = block(tmp_path, Hub(rows=[], row_s=0.01))
    with pytest.raises(BlockError, match=r"writer 0 \(ucx, n1\) reported no rate in \d+ s$"):
        asyncio.run(rates.learn(WRITES))
    # If the log has the reason why its launcher waits, the message ends with it.
    log = runner.plan.logs / "writer-0-origin.log"
    log.write_text("srun: Job 7 step creation temporarily disabled, retrying\n")
    with pytest.raises(BlockError, match=r"no rate in \d+ s: srun: Job 7 step creation"):
        asyncio.run(rates.learn(WRITES))


def test_a_writer_that_starts_to_report_after_the_timeout_ends_the_block(tmp_path):
    """Its rows come once the first wait, for a row of it, has ended."""

    class Late(Hub):
        async def wait_for(self, condition, timeout_s):
            self.timeouts_s.append(timeout_s)
            if len(self.timeouts_s) > 1:
                for state in self.states:
                    state.series.rows = [RateRow(end_s - 1, end_s, 100.0) for end_s in range(12)]
            return condition()

    _, rates = block(tmp_path, hub := Late(rows=[]), limits={"ready_timeout_s": 30.0})
    with pytest.raises(
        BlockError, match=r"writer 0 \(ucx, n1\) reported no rate in 31 s$"
    ) as error:
        asyncio.run(rates.learn(WRITES))
    assert (error.value.outcome, hub.orders) == ("injector_never_ready", ["start", "stop"])


def test_a_writer_of_known_rate_that_reports_nothing_ends_the_block(tmp_path):
    """The first block measures its rate; the next one only starts it."""
    _, rates = block(tmp_path, Hub())
    asyncio.run(rates.learn(WRITES))
    _, rates = block(tmp_path, hub := Hub(rows=[], row_s=0.01), number=1)
    with pytest.raises(BlockError, match=r"writer 0 \(ucx, n1\) reported no rate in \d+ s$"):
        asyncio.run(rates.learn(WRITES))
    assert hub.orders == ["start", "hold"]


class Sleepers(Hub):
    """Writers hang in their first `hangs` starts: they report no rows."""

    def __init__(self, hangs):
        super().__init__(row_s=0.01)
        self._hangs = hangs

    async def start(self, injector, writers, timeout_s):
        states = await super().start(injector, writers, timeout_s)
        if self.orders.count("start") <= self._hangs:
            for state in states:
                state.series.rows = []
        return states


@pytest.mark.parametrize("hangs", [1, 3, 4])
def test_writers_over_tcp_that_never_report_are_started_up_to_four_times(tmp_path, hangs):
    runner, _ = block(tmp_path, hub := Sleepers(hangs), limits={"ready_timeout_s": 0.1})
    hub.addresses["n2"], hub.facts["n2"] = "10.0.0.2", hub.facts["n1"]
    nodes = Allocation(["n1"], ["n2"])
    runner = BlockRunner(runner.plan, nodes, hub, "", READERS)
    if hangs == 4:
        with pytest.raises(BlockError, match="reported no rate"):
            asyncio.run(AloneRates(runner).learn(WRITES))
        assert hub.orders.count("start") == 4
        # One start may take 0.11 s, the timeout and a row of 0.01 s. The first three starts share
        # this time, and the last start has it for itself.
        assert hub.timeouts_s[:4] == pytest.approx([0.11 / 3] * 3 + [0.11])
        return
    asyncio.run(AloneRates(runner).learn(WRITES))
    assert hub.orders == [*["start", "stop"] * hangs, "start", "hold"]
    assert runner.writers.alone_b_s == {WRITES: [100.0]}


# What is stored next to what was measured.


@pytest.mark.parametrize(
    ("cores", "free", "noted"),
    [
        (1, ["63"], False),
        (1, ["", "63"], True),
        (1, [None], False),  # the free CPUs are unknown
        (0, [""], False),
        (None, [""], False),
    ],
)
def test_a_reserved_core_on_which_the_application_may_run_is_noted(cores, free, noted):
    factors = {} if cores is None else {"reserved_cores": cores}
    nodes = [
        NodeConditions(node=f"n{number}", over_s=9.0, free_cpus=cpus)
        for number, cpus in enumerate(free)
    ]
    notes = list(unbound_notes(factors, nodes))
    assert len(notes) == noted
    assert not noted or "n0" in notes[0]


def test_only_the_processor_time_that_writing_may_take_is_stored_of_origins():
    counted = {
        node: {"softirq-time": NodeCounter(number, "s"), "interrupts": NodeCounter(9, "count")}
        for number, node in enumerate(("t0", "t1", "o0"), 1)
    }
    rows = node_counter_rows(Allocation(["t0", "t1"], ["o0"]), counted)
    assert [(row["tool"], row["rank"], row["event"], row["value"]) for row in rows] == [
        ("node", 0, "softirq-time", 1),
        ("node", 0, "interrupts", 9),
        ("node", 1, "softirq-time", 2),
        ("node", 1, "interrupts", 9),
        ("origin", 0, "softirq-time", 3),
    ]
    shared = node_counter_rows(
        Allocation(["t0"], ["t0"]), {"t0": {"interrupts": NodeCounter(1, "count")}}
    )
    assert [row["tool"] for row in shared] == ["node"]  # a node that is both is stored once


def test_sum_median_and_extremes_are_kept_if_there_are_many_nodes():
    """65 nodes count interrupts: 64 on the first, 0 on the last.

    Only two nodes have the share `stalls`: 1 on t3, and 0 on t9.
    """
    names = [f"t{index}" for index in range(65)]
    counted = {
        name: {"interrupts": NodeCounter(64 - index, "count")} for index, name in enumerate(names)
    }
    counted["t3"]["stalls"], counted["t9"]["stalls"] = NodeCounter(1.0, "1"), NodeCounter(0.0, "1")
    counted["o0"] = {"softirq-time": NodeCounter(5.0, "s")}
    rows = node_counter_rows(Allocation(names, ["o0"]), counted)
    kept = ("tool", "rank", "event", "value", "nodes", "median", "least", "least_node")
    assert [tuple(row[name] for name in (*kept, "most", "most_node")) for row in rows[:2]] == [
        ("node", -1, "interrupts", 64 * 65 / 2, 65, 32, 0, 64, 64, 0),
        ("node", -1, "stalls", 0.5, 2, 0.5, 0.0, 9, 1.0, 3),
    ]
    assert [(row["tool"], row["rank"], row["value"]) for row in rows[2:]] == [("origin", 0, 5.0)]
    assert len(node_counter_rows(Allocation(names[:64], ["o0"]), counted)) == 64 + 2 + 1


def test_a_note_names_the_nodes_whose_counters_are_summed():
    """Summed are the counters of more than 64 targets, and of more than 64 origins."""
    many, few = [f"n{index}" for index in range(65)], ["n0", "n1"]
    assert summed_nodes(Allocation(few, many[:64])) == ""
    assert summed_nodes(Allocation(many, few)) == "65 targets"
    assert summed_nodes(Allocation(few, many)) == "65 origins"
    assert summed_nodes(Allocation(many, many)) == "65 targets and 65 origins"
