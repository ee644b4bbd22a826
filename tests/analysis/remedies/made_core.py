"""A reserved core with a known price and gain."""

from tests.analysis.synthetic import Case, crossed

#: A core that costs 5 % and takes the loss from 1.5 to 1.1 times: a net of 1.364 all the time.
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
