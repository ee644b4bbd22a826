"""The checks find what they are there for, in observations made by hand."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.faults.checks import Ended, Observed, violations
from tests.faults.table import FAULTS

HEADER = {"digest": "d", "seed": 1, "asked": {"cases": {}}, "finished_s": 900.0}
WRITER = {"rate_alone_b_s": 10e9, "rate_min_b_s": 9e9, "proof": "memory", "observed_share": 1.0}
#: A run starts every ten seconds and takes one: pair 2 is on at 140, off at 150.
STARTS_S = {(pair, arm): 100.0 + 20 * pair + 10 * (arm == "off") for pair in range(6)
            for arm in ("on", "off")}  # fmt: skip


def sample(pair: int, arm: str, **changes: Any) -> dict[str, Any]:
    return {
        "key": f"stream/0/{pair}/{arm}/0",
        "arm": arm,
        "block": 0,
        "pair": pair,
        "outcome": "kept",
        "warmup": False,
        "start_s": STARTS_S[pair, arm],
        "elapsed_s": 1.0,
        "writers": [WRITER] if arm == "on" else [],
        **changes,
    }


def text(changed: dict[tuple[int, str], dict[str, Any]] = {}) -> bytes:  # noqa: B006
    runs = [sample(*run, **changed.get(run, {})) for run in STARTS_S]
    return b"".join(json.dumps(each).encode() + b"\n" for each in runs)


GOOD = Observed(
    fault=FAULTS["kill writer_origin"],
    struck_s=(145.0, 145.1),
    disturbed=Ended(3, "nimc: resumes r\nnimc: stream: injector_died: exit status -9\n", 9.0, 60.0),
    resumed=[Ended(0, "nimc: resumes r\n", 20.0, 60.0)],
    runs_before=["r"],
    runs=["r"],
    reported=text()[: text().find(b"\n") + 1],
    samples=text(),
    header_before={**HEADER, "finished_s": None},
    header=HEADER,
    files=[],
)


def test_nothing_is_found_where_all_holds() -> None:
    assert violations(GOOD) == []


DEAD = {"writers": [{**WRITER, "rate_min_b_s": 0.0}]}
UNPROVEN = {"writers": [{**WRITER, "proof": None}]}
UNSEEN = {"writers": [{**WRITER, "observed_share": 0.0}]}
ENDED = GOOD.resumed[0]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("nothing left", {"files": ["/tmp/x"]}),
        ("nothing left", {"disturbed": replace(GOOD.disturbed, left=["process 7 x"])}),
        ("nothing left", {"resumed": [replace(ENDED, left=["job 7"])]}),
        ("reported samples stay", {"reported": text({(0, "on"): {"elapsed_s": 1.5}})}),
        ("reported samples stay", {"samples": text() + b'{"key": "s'}),
        ("readable once", {"samples": text() + text().splitlines(keepends=True)[0]}),
        ("readable once", {"samples": text() + b'{"key": "x"\n'}),
        ("counted is proven", {"samples": text({(3, "on"): DEAD})}),
        ("counted is proven", {"samples": text({(3, "on"): UNPROVEN})}),
        ("counted is proven", {"samples": text({(3, "on"): UNSEEN})}),
        ("counted is proven", {"samples": text({(3, "on"): {"writers": []}})}),
        ("counted is proven", {"samples": text({(3, "off"): {"writers": [WRITER]}})}),
        ("silenced is not counted", {"struck_s": (140.5, 140.6)}),
        (
            "silenced is not counted",
            {"fault": FAULTS["stop writer_origin"], "struck_s": (135.0, 145.0)},
        ),
        (
            "silenced is not counted",
            {
                "fault": FAULTS["continue writer_origin"],
                "struck_s": (STARTS_S[3, "off"] + 0.5, STARTS_S[3, "off"] + 0.6),
                "disturbed": Ended(0, "nimc: resumes r\n", 9.0, 60.0),
            },
        ),
        ("resumes to the same set", {"runs": ["r", "r-2"]}),
        ("resumes to the same set", {"header": {**HEADER, "seed": 2}}),
        ("resumes to the same set", {"header": {**HEADER, "finished_s": None}}),
        ("resumes to the same set", {"samples": text({(5, "off"): {"outcome": "rejected"}})}),
        ("bounded wait", {"resumed": [replace(ENDED, status=None), ENDED]}),
        ("documented exit", {"disturbed": replace(GOOD.disturbed, status=1)}),
        ("documented exit", {"resumed": [replace(ENDED, status=2, err="nimc: x"), ENDED]}),
        ("documented exit", {"resumed": [replace(ENDED, status=3, err="nimc: x")]}),
        ("documented exit", {"second": Ended(0, "", 1.0, 60.0)}),
        ("one clear line", {"disturbed": replace(GOOD.disturbed, err="nimc: resumes r\n")}),
        ("one clear line", {"disturbed": replace(GOOD.disturbed, err="Traceback (most ...\n")}),
        (
            "one clear line",
            {"disturbed": replace(GOOD.disturbed, err="nimc: failed unexpectedly: KeyError\n")},
        ),
    ],
)
def test_each_violation_is_found_and_named(name: str, changes: dict[str, Any]) -> None:
    found = {line.partition(":")[0] for line in violations(replace(GOOD, **changes))}
    assert found == {name}
