"""What else the folder of a run has, made of its samples; and the recorded run with it.

Outputs of the application and of writers, rates alone, and ReFrame's reports, as the conductor and
the checks would have left them.
"""

from pathlib import Path
from typing import Any

import polars as pl

from analysis.effects.estimate import reported, results
from analysis.samples.columns import read_run
from nimc.records import chain
from tests.analysis.integrity.files import Json, Run
from tests.captures import CAPTURES, RUN_QUICK

REFRAME = "4.10.4"
#: What the digest of the recorded run is of.
RESOLVED = {
    "campaign": {
        "name": "quick",
        "workloads": [
            {"check": "stream", "set": {"iterations": 20, "array_most": "128MiB"}},
            {"check": "lammps", "set": {"steps": 150}},
        ],
        "arms": ["off", "on", "spin", "aa"],
        "pairs": {"floor": 6},
        "verify": {
            "min_share": 0.2,
            **{"foreign_cpus": None, "steal_share": None, "frequency_drop": None},
        },
        "run_timeout": 120.0,
        "seed": 2014,
    },
    "machine": {
        "name": "localhost",
        "description": "one host; origin and target share it",
        "origins": {"policy": "same_host"},
        "injector": "ucx",
    },
    "hostname": "vm",
}
_PERFTEST = (CAPTURES / "perftest" / "inf_D1_file_INT.client.txt").read_text()


def completed(run: Path, notes: list[str]) -> Path:
    """Adds to a run what its logs lack; `notes` are those of its checks."""
    found = Run.read(run)
    frame = read_run(run).frame
    for case, rows in found.samples.items():
        found.reprint(rows)
        found.logs[f"logs/{case}/0/alone.json"] = _alone(rows)
        for block in {each["block"]: None for each in rows}:
            own = frame.filter(pl.col("case").cast(pl.String) == case, block=block)
            logs = f"logs/{case}/{block}"
            found.logs[f"{logs}/reframe.json"] = _report(own, found.header, notes)
            if "perftest" in own["injector"].cast(pl.String).to_list():
                text = _PERFTEST.replace(": Ethernet\n GID", ": IB\n GID")
                found.outputs[f"{logs}/writer-0-origin.log"] = text
    _with_heads(found, found.write(run))
    return found.write(run)


def _with_heads(found: Run, run: Path) -> None:
    """Reports have the head of the chain before their block."""
    last: dict[str, str] = {}
    chained = [each for rows in Run.read(run).samples.values() for each in rows]
    blocks = {(each["case"], each["block"]): None for each in sorted(chained, key=_start_s)}
    for case, block in blocks:
        session = found.logs[f"logs/{case}/{block}/reframe.json"]["session_info"]
        session["nimc_head"] = chain.head(chain.header_digest(chain.header_of(run)), last)
        own = [s["chain"] for s in chained if (s["case"], s["block"]) == (case, block)]
        last[case] = own[-1]


def _start_s(sample: Json) -> float:
    return float(sample["start_s"])


def _alone(rows: list[Json]) -> list[Json]:
    """What a block learns of each kind of writes."""
    writers = [writer for each in rows if each["role"] == "effect" for writer in each["writers"]]
    found = {(w["rate_alone_b_s"], w["counted_alone_b_s"]): w for w in writers}
    return [
        {
            "targets": [writer["target"]],
            "origins": [writer["origin"]],
            "rates_b_s": [rate_b_s],
            "counted": {writer["target"]: [writer["counter"], by_device_b_s, 1.0]}
            if by_device_b_s
            else {},
        }
        for (rate_b_s, by_device_b_s), writer in found.items()
    ]


def _report(block: pl.DataFrame, header: Json, notes: list[str]) -> Json:
    """ReFrame's report of a block that passed."""
    case, number = str(block["case"][0]), block["block"][0]
    figures = {
        f"made:default:{name}": [value, 0, None, None, unit, "pass"]
        for row in results(block)
        for name, (value, unit) in reported(row).items()
        if value is not None
    }
    testcase: dict[str, Any] = {"case": case, "block": number, "result": "pass", "notes": notes}
    testcase |= {"nimc_dir": f"/results/{header['run']}", "seed": header["seed"]}
    last: Any = (block["start_s"] + block["elapsed_s"]).max()
    session = {"version": REFRAME, "time_start_unix": block["start_s"][0] - 15.0}
    return {
        "session_info": session | {"time_end_unix": last + 5.0},
        "runs": [{"testcases": [testcase | {"perfvalues": figures}]}],
    }


def recorded_quick(folder: Path) -> Path:
    """The recorded run, as this version would have written it."""
    found = Run.read(RUN_QUICK)
    found.header.update(schema=4, resolved=RESOLVED)
    found.logs = {name: each for name, each in found.logs.items() if "reframe" not in name}
    for sample in found.all():
        sample["schema"] = 4
    run = found.write(folder / RUN_QUICK.name)
    return completed(run, [])
