"""Runs of LAMMPS at some scales with writers on a timetable, whose times are known by hand."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from nimc.records.sample import TimetableRecord, WriterRecord
from tests.analysis.synthetic import sample

#: Runs without writers take so many seconds; 100 steps of 50 ms.
OFF_S = 5.0
#: Arm -> time / OFF_S, of each pair.
Pairs = Iterable[Mapping[str, float]]


def made_run(
    folder: Path, scales: Mapping[str, tuple[int, int, Pairs]], transport: str = "tcp"
) -> Path:
    """`scales`: case -> its nodes, a rank each; how many are written to at once; and its pairs."""
    (folder / "samples").mkdir(parents=True)
    writer = WriterRecord("ucx", "o", "*", transport, 65536, None, 1e9, 1e9, 1e9, 5e9)
    for number, (case, (nodes, writers, pairs)) in enumerate(scales.items()):
        timetable = TimetableRecord(writers, 1.0, 0.2, 0.1)
        with (folder / "samples" / f"{case}.jsonl").open("w") as file:
            for pair, ratios in enumerate(pairs):
                for arm, ratio in ratios.items():
                    start_s = 1e9 + 1000 * number + 10 * pair
                    made = sample(
                        **{"case": case, "workload": "lammps_scaling", "arm": arm, "pair": pair},
                        **{"start_s": start_s, "elapsed_s": OFF_S * ratio, "fom": OFF_S * ratio},
                        **{"nodes": [f"n{i}" for i in range(nodes)], "origin_nodes": ["o"]},
                        fom_extra={"ranks": float(nodes), "steps": 100.0},
                        **({"writers": [writer], "timetable": timetable} if arm == "daly" else {}),
                    )
                    file.write(json.dumps(made.as_dict()) + "\n")
    return folder
