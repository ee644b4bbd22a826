"""Disturb small campaigns, and check the results afterwards (docs/reliability.md).

No sample may be lost, no process or file may be left behind, and no disturbed run may be accepted.
Needs root.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import get_args

from tests import trials
from tests.faults import table, trial
from tests.faults.checks import Observation, violations
from tests.faults.cluster import Minicluster, VirtualMachines
from tests.faults.host import Host
from tests.faults.table import Fault
from tests.trials import FAILED, Outcome

TESTBEDS: dict[str, type[Host]] = {"localhost": Host, "veth": Minicluster, "rxe": VirtualMachines}
#: Folder in which trials have their folders. It is not /tmp, since campaigns see an empty /tmp.
WORK = Path("/var/tmp")
#: How many campaigns are disturbed until one has a victim: a process on which the fault acts.
ATTEMPTS = 3


def main() -> int:
    options = _arguments()
    if os.geteuid() != 0:
        sys.exit("tests.faults: root is required (mount namespaces)")
    # `nohup` and shells make background processes ignore signals, and nimc would inherit this.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # An exit by an exception removes the testbed and the folders.
    signal.signal(signal.SIGTERM, lambda signum, _: sys.exit(128 + signum))
    folder = Path(tempfile.mkdtemp(prefix="nimc-faults-", dir=WORK))
    faults = table.faults_on(options.testbed)
    if options.planted:
        faults = [fault for fault in faults if fault.reason]
    faults = trials.select_rows(faults, options.only)
    try:
        with TESTBEDS[options.testbed].instance(folder) as host:
            interrupted = None if all(fault.reason for fault in faults) else trial.begin(host)

            def tried(fault: Fault, rng: random.Random, index: int) -> Outcome:
                outcome = _outcome(_observed(host, interrupted, fault, rng, str(index)))
                host.repair()
                return outcome

            return trials.run(faults, tried, kinds=("held", "no victim"), options=options)
    finally:
        if not options.keep:
            shutil.rmtree(folder)


def _observed(
    host: Host,
    interrupted: trial.InterruptedCampaign | None,
    fault: Fault,
    rng: random.Random,
    name: str,
) -> Observation | None:
    if fault.reason:
        return trial.plant(host, fault, name)
    assert interrupted
    for attempt in range(ATTEMPTS):
        if observed := trial.run(host, interrupted, fault, rng, f"{name}-{attempt}"):
            return observed
        host.repair()
    return None


def _outcome(observed: Observation | None) -> Outcome:
    if observed is None:
        return Outcome("no victim", note="no victim")
    wrong = violations(observed)
    statuses = ", ".join(str(nimc.status) for nimc in observed.nimcs)
    return Outcome(FAILED if wrong else "held", wrong, f"exits {statuses}")


def _arguments() -> argparse.Namespace:
    parser = trials.arguments("python -m tests.faults", __doc__)
    parser.add_argument("--testbed", choices=get_args(table.Testbed), default="localhost")
    parser.add_argument("--planted", action="store_true", help="only faults that last all the time")
    parser.add_argument("--keep", action="store_true", help="keep the folders of all trials")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
