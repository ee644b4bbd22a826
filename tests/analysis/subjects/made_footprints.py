"""Makes a run in which only writes that pass through memory cost time."""

from dataclasses import replace
from pathlib import Path

from records.arms import arm_and_levels, treatment_name
from tests.analysis.made_counters import counter_row, write_rows
from tests.analysis.synthetic import HOST, Case, crossed, header, samples, write_run
from tests.studies.footprints import MIB

KIB = 1 << 10

#: Footprint of the writes -> its bytes, and the relative time of the made run.
FOOTPRINTS = {"64KiB": (64 * KIB, 1.0), "llc_16": (2 * MIB, 1.0), "2*llc": (64 * MIB, 1.2)}
SETS = {"512KiB": 512.0 * KIB, "64MiB": 64.0 * MIB}


def cell_of(arm: str) -> tuple[str, str]:
    """Return the footprint and working set of a treatment, whose name omits first levels."""
    levels = arm_and_levels(arm).levels
    return levels.get("footprint", "64KiB"), levels.get("working_set", "512KiB")


def made_run(folder: Path, transport: str = "InfiniBand", *, counted: bool = True) -> Path:
    """Write a run in which writes beyond the caches cost 20 %, with every working set.

    Half of these writes reach memory. `counted` is whether the traffic of the memory controllers
    was counted, which the campaign does not request.
    """
    levels = [{"footprint": f, "working_set": w} for f in FOOTPRINTS for w in SETS]
    first = {"footprint": "64KiB", "working_set": "512KiB"}
    silent = [cell for cell in levels if cell["footprint"] == "64KiB"]
    names = [
        treatment_name(arm, {key: level for key, level in cell.items() if level != first[key]})
        for arm, cells in (("on", levels), ("off", silent), ("aa", silent))
        for cell in cells
    ]
    times = {
        name: FOOTPRINTS[cell_of(name)[0]][1] if name.startswith("on") else 1.0 for name in names
    }
    case = Case(
        name="membench",
        unit="B/s",
        better="higher",
        base=1e10,
        effects=times,
        noise=0.004,
        transport=transport,
    )
    tool = {"tool": "perf_stat:dram"} if counted else {}
    case = crossed(case, {"working_set": "512KiB", **tool}, {"footprint": "64KiB"})
    case = replace(case, origin="far")
    runs = []
    for sample in samples(case, pairs=12):
        footprint, working_set = cell_of(sample.arm)
        size_b = FOOTPRINTS[footprint][0]
        writers = [replace(writer, footprint_b=size_b) for writer in sample.writers]
        runs.append(replace(sample, writers=writers, working_set_b=SETS[working_set]))
    host = {"llc_total_b": 32 * MIB, "sockets": 2, "l2_b": MIB}
    run = write_run(folder / "run", runs, header(margin=0.03), record={"nodes": {HOST: host}})
    rows = []
    for sample in runs if counted else []:
        written_b = sum(writer.bytes_b for writer in sample.writers)
        share = 0.5 if cell_of(sample.arm)[0] == "2*llc" else 0.0
        lines = (1e9 + share * written_b) / 64
        rows.append(counter_row(sample.key, "unc_m_cas_count.wr", lines, tool="perf_stat:dram"))
    write_rows(run, "membench", rows)
    return run
