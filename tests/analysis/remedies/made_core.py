"""A made case of a reserved core, whose price and gain are known."""

from tests.analysis.synthetic import Case, crossed

#: Arm -> relative times without and with the core. The core costs 5 % without writes, and reduces
#: the time under writes from 1.5 to 1.1. With traffic all the time, its net effect is 1.364.
TIMES = {"off": (1.0, 1.05), "on": (1.5, 1.1), "aa": (1.0, 1.05)}

CORE = crossed(
    Case(
        name="lammps",
        unit="s",
        better="lower",
        base=10.0,
        effects={name: time for name, (time, _) in TIMES.items() if name != "off"}
        | {f"{name}@reserved_cores=1": time for name, (_, time) in TIMES.items()},
        noise=0.005,
        transport="InfiniBand",
        origin="origin-0",
    ),
    {"reserved_cores": 0},
)
