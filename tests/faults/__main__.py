"""Disturb small campaigns at random moments, and check that nothing is lost, left or wrongly
counted (docs/reliability.md). Needs root."""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import get_args

from tests.faults import table, trial
from tests.faults.checks import violations
from tests.faults.cluster import Minicluster
from tests.faults.place import Place
from tests.faults.table import Fault
from tests.faults.virtual import VirtualMachines

PLACES: dict[str, type[Place]] = {"localhost": Place, "veth": Minicluster, "rxe": VirtualMachines}
#: Not below /tmp, which is empty for the campaigns.
WORK = Path("/var/tmp")


def draw(faults: list[Fault], seed: int, index: int) -> tuple[Fault, random.Random]:
    """The fault of a trial: each once, in random order, then each again; and its random numbers."""
    turn, place = divmod(index, len(faults))
    order = random.Random(f"{seed} {turn}").sample(faults, len(faults))
    return order[place], random.Random(f"{seed} {index}")


def main() -> int:
    asked = _arguments()
    if os.geteuid() != 0:
        sys.exit("tests.faults: root is required (mount namespaces)")
    # What `nohup` or a shell's background ignores, nimc would ignore as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, lambda signum, _: sys.exit(128 + signum))  # leave nothing behind
    folder = Path(tempfile.mkdtemp(prefix="nimc-faults-", dir=WORK))
    faults = table.at(asked.place)
    if asked.only:
        faults = [each for each in faults if any(word in each.name for word in asked.only)]
    counted: dict[str, Counter[str]] = {}
    try:
        with PLACES[asked.place].made(folder) as place:
            begun = trial.begin(place)
            print(
                f"{asked.place}: a campaign takes {begun.whole_s:.0f} s, its last pair"
                f" {begun.rest_s:.0f} s",
                flush=True,
            )
            for index in range(asked.first, asked.first + asked.count):
                fault, rng = draw(faults, asked.seed, index)
                how = _one(place, begun, fault, rng, index)
                counted.setdefault(fault.name, Counter())[how] += 1
                place.repair()
    finally:
        if not asked.keep:
            shutil.rmtree(folder)
    return _report(asked.place, asked.seed, counted)


def _one(place: Place, begun: trial.Begun, fault: Fault, rng: random.Random, index: int) -> str:
    began_s = time.monotonic()
    seen = trial.run(place, begun, fault, rng, str(index))
    wrong = violations(seen) if seen else []
    how = "missed" if seen is None else "failed" if wrong else "held"
    exits = [each.status for each in seen.nimcs] if seen else []
    print(
        f"{index:4} {fault.name:24} {how:6} {time.monotonic() - began_s:4.0f} s  exits"
        f" {', '.join(map(str, exits))}",
        flush=True,
    )
    for line in wrong:
        print(f"       {line}", flush=True)
    return how


def _report(place: str, seed: int, counted: dict[str, Counter[str]]) -> int:
    print(f"\n| fault ({place}, seed {seed}) | tried | held | failed | no victim |")
    print("|---|---|---|---|---|")
    total: Counter[str] = Counter()
    for name, found in [*sorted(counted.items()), ("all", total)]:
        tried = found["held"] + found["failed"]
        print(f"| {name} | {tried} | {found['held']} | {found['failed']} | {found['missed']} |")
        total += found if name != "all" else Counter()
    return int(total["failed"] > 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10, help="number of trials (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="index of the first one")
    parser.add_argument("--place", choices=get_args(table.Place), default="localhost")
    parser.add_argument("--only", type=lambda text: text.split(","), help="words in faults' names")
    parser.add_argument("--keep", action="store_true", help="keep the folders of all trials")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
