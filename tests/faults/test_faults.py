"""Tests of the fault trials.

Their checks are tested with observations made by hand. A few real trials show that the harness
works. `python -m tests.faults` makes more.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from testbed import needs
from testbed.spec import CHECKOUT, Fabric
from tests.faults import actions, table
from tests.faults.checks import NimcEnd, Observation, violations
from tests.faults.table import FAULTS

HEADER = {"digest": "d", "seed": 1, "asked": {"cases": {}}, "finished_s": 900.0}
WRITER = {"rate_alone_b_s": 10e9, "rate_min_b_s": 9e9, "proof": "memory", "observed_share": 1.0}
#: (pair, arm) -> start of the application run, seconds. A run starts every ten seconds and takes
#: one second. For example, the runs of pair 2 start at 140 (`on`) and 150 (`off`).
STARTS_S = {(pair, arm): 100.0 + 20 * pair + 10 * (arm == "off") for pair in range(6)
            for arm in ("on", "off")}  # fmt: skip


def text(changed: dict[tuple[int, str], dict[str, Any]] = {}) -> bytes:  # noqa: B006
    lines = []
    for (pair, arm), start_s in STARTS_S.items():
        run = {"key": f"stream/0/{pair}/{arm}/0", "arm": arm, "block": 0, "pair": pair}
        run |= {"outcome": "accepted", "reason": None, "warmup": False, "start_s": start_s}
        run |= {"elapsed_s": 1.0, "writers": [WRITER] if arm == "on" else []}
        lines.append(json.dumps(run | changed.get((pair, arm), {})).encode() + b"\n")
    return b"".join(lines)


FAILED_OUTPUT = "nimc: resumes r\nnimc: stream: injector_died: exit status -9\n"
GOOD = Observation(
    fault=FAULTS["kill writer_origin"],
    fault_times_s=(145.0, 145.1),
    disturbed=NimcEnd(3, FAILED_OUTPUT, 60.0),
    resumed=[NimcEnd(0, "nimc: resumes r\n", 60.0)],
    runs_before=["r"],
    runs=["r"],
    samples_before=text()[: text().find(b"\n") + 1],
    samples=text(),
    header_before={**HEADER, "finished_s": None},
    header=HEADER,
    files=[],
)
REJECTED = {"outcome": "rejected", "reason": "writer 0 wrote at 7 %; at least 50 % is required"}
PLANTED = replace(
    GOOD,
    fault=FAULTS["writer slow"],
    fault_times_s=None,
    disturbed=NimcEnd(143, "nimc: stopped by SIGTERM\n", 60.0),
    resumed=[],
    samples=text({(pair, "on"): REJECTED for pair in range(6)}),
    samples_before=b"",
)
ENDED = GOOD.resumed[0]
UNPROVEN = [{"rate_min_b_s": 0.0}, {"proof": None}, {"observed_share": 0.0}]
WOKEN = {
    "fault": FAULTS["go_on writer_origin"],
    "fault_times_s": (STARTS_S[3, "off"] + 0.5, STARTS_S[3, "off"] + 0.6),
    "disturbed": NimcEnd(0, "nimc: resumes r\n", 60.0),
}
STOPPED = {"fault": FAULTS["stop writer_origin"], "fault_times_s": (135.0, 145.0)}
VIOLATIONS: list[tuple[str, dict[str, Any]]] = [
    ("nothing left", {"files": ["/tmp/x"]}),
    ("nothing left", {"disturbed": replace(GOOD.disturbed, leftovers=["process 7 x"])}),
    ("nothing left", {"resumed": [replace(ENDED, leftovers=["job 7"])]}),
    ("reported samples stay", {"samples_before": text({(0, "on"): {"elapsed_s": 1.5}})}),
    ("reported samples stay", {"samples": text() + b'{"key": "s'}),
    ("readable once", {"samples": text() + text().splitlines(keepends=True)[0]}),
    ("readable once", {"samples": text() + b'{"key": "x"\n'}),
    *(
        ("counted is proven", {"samples": text({(3, "on"): {"writers": [{**WRITER, **lack}]}})})
        for lack in UNPROVEN
    ),
    ("counted is proven", {"samples": text({(3, "on"): {"writers": []}})}),
    ("counted is proven", {"samples": text({(3, "off"): {"writers": [WRITER]}})}),
    ("silenced is not counted", {"fault_times_s": (140.5, 140.6)}),
    ("silenced is not counted", STOPPED),
    ("silenced is not counted", WOKEN),
    ("resumes to the same set", {"runs": ["r", "r-2"]}),
    ("resumes to the same set", {"header": {**HEADER, "seed": 2}}),
    ("resumes to the same set", {"header": {**HEADER, "finished_s": None}}),
    ("resumes to the same set", {"samples": text({(5, "off"): {"outcome": "rejected"}})}),
    ("bounded wait", {"resumed": [replace(ENDED, status=None), ENDED]}),
    ("documented exit", {"disturbed": replace(GOOD.disturbed, status=1)}),
    ("documented exit", {"resumed": [replace(ENDED, status=2, err="nimc: x"), ENDED]}),
    ("documented exit", {"resumed": [replace(ENDED, status=3, err="nimc: x")]}),
    ("documented exit", {"second": NimcEnd(0, "", 60.0)}),
    *(
        ("one clear line", {"disturbed": replace(GOOD.disturbed, err=err)})
        for err in (
            "nimc: resumes r\n",
            "Traceback (most ...\n",
            "nimc: failed unexpectedly: KeyError\n",
        )
    ),
]


@pytest.mark.parametrize(("name", "changes"), VIOLATIONS)
def test_a_violation_is_named(name: str, changes: dict[str, Any]) -> None:
    assert {line.partition(":")[0] for line in violations(replace(GOOD, **changes))} == {name}


def test_sound_observations_have_no_violation() -> None:
    assert violations(GOOD) == violations(PLANTED) == []


@pytest.mark.parametrize(
    "changes",
    [
        # Another reason is expected, and the `off` runs are accepted.
        {"fault": FAULTS["writes in off"]},
        {"samples": text({(pair, "on"): REJECTED for pair in range(5)})},
    ],
)
def test_a_planted_fault_that_is_not_named_or_rejects_no_run_is_a_violation(
    changes: dict[str, Any],
) -> None:
    names = {line.partition(":")[0] for line in violations(replace(PLANTED, **changes))}
    assert names == {"planted is named"}


def test_the_table_has_every_process_of_a_block_and_an_action_for_each_row() -> None:
    assert {fault.action for fault in FAULTS.values()} == actions.ACTIONS.keys()
    killed = {fault.victim for fault in FAULTS.values() if fault.action == "kill"}
    parts = {"reframe", "conductor", "agent", "srun", "application"}
    assert killed == {"nimc", "writer_origin", "writer_target", *parts}
    assert len([fault for fault in table.faults_on("localhost") if fault.reason]) >= 8


def make(*words: str, faults: int, timeout_s: float) -> None:
    if os.geteuid() != 0:
        pytest.skip("mount namespaces need root")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        pytest.skip("this host lets nobody make namespaces")
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", *words],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Each fault is tried once, and all trials hold. The last two columns count trials without a
    # victim, and failed trials.
    assert f"| all | {faults} | {faults} | 0 | 0 |" in done.stdout, done.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "faults"),
    [(("--only", "kill,disk full"), 8), (("--planted",), 8)],
    ids=["kills and a full disk", "planted"],
)
def test_faults_on_this_host(words: tuple[str, ...], faults: int) -> None:
    make("--seed", "16", *words, faults=faults, timeout_s=1800)


@pytest.mark.long
@pytest.mark.minicluster
@pytest.mark.parametrize(
    ("fabric", "seed", "words", "faults"),
    [
        ("veth", "16", "kill agent,node off", 2),
        ("rxe", "18", "claims,wrong NUMA node", 2),
        ("rxe", "18", "clock set back", 1),
    ],
)
def test_faults_on_a_minicluster(fabric: Fabric, seed: str, words: str, faults: int) -> None:
    if missing := needs.missing(fabric):
        pytest.skip(
            f"missing for --fabric {fabric}: {', '.join(row.program_or_file for row in missing)}"
        )
    options = ("--testbed", fabric, "--seed", seed, "--only", words)
    make(*options, faults=faults, timeout_s=1500)
