"""Makes a sound synthetic run, as a conductor would have written it, and edits it.

Nothing in it was measured.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.samples.columns import read_run
from analysis.samples.integrity import Integrity, check_run
from analysis.samples.provenance import read_provenance
from records.order import pair_order, run_seed
from records.run import Requirements, RunHeader, load_header
from records.sample import Sample
from scripts.rechain import rechain
from tests.analysis.synthetic import LAMMPS, STREAM, Case, header, samples, write_run

RUN = "sound-run"
#: Treatments in the plan's order.
ARMS = ["off", "on", "spin", "aa"]
HEADER: RunHeader = header(
    run=RUN,
    seed=run_seed("0" * 64, RUN),
    pairs_cap=6,
    asked=Requirements({"stream": ARMS, "lammps": ARMS}, min_share=0.5, retries=2),
)
PAIRS = 6
#: Number of the pair whose run of `on` was repeated, in every case.
REPEATED = 2

Json = dict[str, Any]


def sound_samples(case: Case) -> list[Sample]:
    """Return a warm-up and six pairs, in the order that the seed gives.

    Runs of `on` have two writers. One run was rejected and repeated.
    """
    assert HEADER.seed is not None
    drawn = {(sample.pair, sample.arm): sample for sample in samples(case, pairs=PAIRS)}
    baselines = {name: None if name == "off" else "off" for name in ARMS}
    order = [drawn[-1, "off"]]
    for pair in range(PAIRS):
        names = pair_order(baselines, HEADER.seed, case.name, pair)
        order += [
            replace(drawn[pair, name], position=position) for position, name in enumerate(names)
        ]
    runs: list[Sample] = []
    clock_s = order[0].start_s
    for sample in order:
        attempts = 2 if (sample.pair, sample.arm) == (REPEATED, "on") else 1
        for attempt in range(attempts):
            given_up = attempt + 1 < attempts
            runs.append(
                replace(
                    sample,
                    key=f"{sample.key[:-1]}{attempt}",
                    attempt=attempt,
                    start_s=clock_s,
                    seed=HEADER.seed,
                    writers=sample.writers * (2 if sample.arm == "on" else 1),
                    outcome="rejected" if given_up else "accepted",
                    reason="writer 0 wrote at 3 % of its rate alone" if given_up else None,
                )
            )
            clock_s += sample.elapsed_s + 1.0
    return runs


def sound_run(folder: Path) -> Path:
    """Write the sound run, and return its folder."""
    return write_run(folder / RUN, [*sound_samples(STREAM), *sound_samples(LAMMPS)], HEADER)


def checked(run: Path) -> Integrity:
    """Return what the checks of a run find."""
    return check_run(run, load_header(run), read_run(run), read_provenance(run))


def edit_samples(run: Path, case: str, edit: Callable[[list[Json]], Any]) -> None:
    """Change the samples of a case, and compute the chain of digests over them again.

    `edit` changes the list of samples, or returns another list.
    """
    path = run / "samples" / f"{case}.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    other = edit(records)
    records = other if isinstance(other, list) else records
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    rechain(run)


def edit_header(run: Path, edit: Callable[[Json], None]) -> None:
    """Change `run.json`, and compute the chain of digests again, which begins with it."""
    path = run / "run.json"
    record = json.loads(path.read_text())
    edit(record)
    path.write_text(json.dumps(record))
    rechain(run)
