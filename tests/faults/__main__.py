"""Disturb small campaigns, and check that nothing is lost, left or wrongly counted
(docs/reliability.md). Needs root."""

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
from tests.faults.checks import Observed, violations
from tests.faults.cluster import Minicluster, VirtualMachines
from tests.faults.host import Host
from tests.faults.table import Fault

PLACES: dict[str, type[Host]] = {"localhost": Host, "veth": Minicluster, "rxe": VirtualMachines}
#: Not below /tmp, which is empty for the campaigns.
WORK = Path("/var/tmp")
#: Trials of a fault, as long as their campaigns end before there is a victim.
ATTEMPTS = 3


def draw(faults: list[Fault], seed: int, index: int) -> tuple[Fault, random.Random]:
    """The fault of a trial: all once, in random order, then again; and its random numbers."""
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
        faults = [fault for fault in faults if any(word in fault.name for word in asked.only)]
    if asked.planted:
        faults = [fault for fault in faults if fault.says]
    counted: dict[str, Counter[str]] = {}
    try:
        with PLACES[asked.place].made(folder) as place:
            begun = None if all(fault.says for fault in faults) else trial.begin(place)
            for index in range(asked.first, asked.first + (asked.count or len(faults))):
                fault, rng = draw(faults, asked.seed, index)
                how = _one(place, begun, fault, rng, index)
                counted.setdefault(fault.name, Counter())[how] += 1
                place.repair()
    finally:
        if not asked.keep:
            shutil.rmtree(folder)
    return _report(asked.place, asked.seed, counted)


def _one(
    place: Host, begun: trial.Begun | None, fault: Fault, rng: random.Random, index: int
) -> str:
    began_s = time.monotonic()
    if fault.says:
        observed = trial.plant(place, fault, str(index))
    else:
        assert begun
        observed = _strike(place, begun, fault, rng, str(index))
    wrong = violations(observed) if observed else []
    how = "missed" if observed is None else "failed" if wrong else "held"
    exits = [nimc.status for nimc in observed.nimcs] if observed else []
    took_s = time.monotonic() - began_s
    said = ", ".join(map(str, exits))
    print(f"{index:4} {fault.name:26} {how:6} {took_s:4.0f} s  exits {said}", flush=True)
    for line in wrong:
        print(f"       {line}", flush=True)
    return how


def _strike(
    place: Host, begun: trial.Begun, fault: Fault, rng: random.Random, name: str
) -> Observed | None:
    for attempt in range(ATTEMPTS):
        if observed := trial.run(place, begun, fault, rng, f"{name}-{attempt}"):
            return observed
        place.repair()
    return None


def _report(place: str, seed: int, counted: dict[str, Counter[str]]) -> int:
    print(f"\n| fault ({place}, seed {seed}) | tried | held | failed | no victim |")
    print("|---|---|---|---|---|")
    total = sum(counted.values(), Counter())
    for name, of in [*sorted(counted.items()), ("all", total)]:
        tried = of["held"] + of["failed"]
        print(f"| {name} | {tried} | {of['held']} | {of['failed']} | {of['missed']} |")
    return int(total["failed"] > 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, help="number of trials [default: each fault once]")
    parser.add_argument("--first", type=int, default=0, help="index of the first one")
    parser.add_argument("--place", choices=get_args(table.Place), default="localhost")
    parser.add_argument("--only", type=lambda text: text.split(","), help="words in faults' names")
    parser.add_argument("--planted", action="store_true", help="faults that are there all the time")
    parser.add_argument("--keep", action="store_true", help="keep the folders of all trials")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
