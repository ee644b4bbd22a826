"""Prints `docs/workloads.md` from the records of the workloads."""

from __future__ import annotations

from reframe_tests.workload import Workload, load, names

_HEAD = """# Workloads

Generated from the `WORKLOAD` of each `reframe_tests/NAME.py`:
`python -m reframe_tests.describe > docs/workloads.md`.

A figure of merit counts only if the run's result is correct. All figures are in SI units.

| workload | figure of merit | unit | better |
|---|---|---|---|
"""

_PROOFS = """
## Correctness checks

"""

_RUN = """
## Size and layout

Sizes follow from the memory and cores of a node, ranks and threads from its cores. They can be set
(`-S hpccg.memory_share=0.5`, `-S layout_cores=2`; `reframe -c reframe_tests/NAME.py --describe`).
Most checks have a short form `NAME_quick`: `-t short` runs all of them, `-t quick` STREAM and
LAMMPS, in about six minutes.

In environments with the feature `spack`, programs are built by [`nimc spack`](spack.md). Elsewhere
they must be on PATH, from modules or wheels, or be named in the machine's file, which then holds
for every environment. A program needs the MPI that starts it.

    programs:              # site/NAME.yaml
      test_driver: /opt/umt/bin/test_driver
      cns: /opt/cns/main.Linux.gfortran.mpi.exe

Programs of this name are `lmp` (LAMMPS), `test_HPCCG`, `lulesh2.0`, `gsnap` (SNAP), `XSBench`,
`miniFE.x`, `amg`, `test_driver` (UMT) and `cns`.

`stream`, `membench`, `latency`, `intensity` and `numa` are compiled in any environment that names a
C compiler (`cc` is not empty).

## UMT and CNS

Spack has no public recipe of them. Build them with the compiler and the MPI that run them; gcc 10
and newer need `-fallow-argument-mismatch` for Fortran.

- **UMT** (https://github.com/LLNL/UMT, commit ed70b58e or later; 5.3.0 prints its energies
  otherwise). CMake, from `src/`, with `ENABLE_OPENMP=ON`, `CONDUIT_ROOT`, `MPI_CXX_COMPILER` and
  `MPI_Fortran_COMPILER`. Conduit must be 0.8.9 or later, with Fortran and MPI. For Conduit 0.9.0 to
  0.9.8, change `CONDUIT_VERSION_PATCH >= 9` in `src/teton/driver/test_driver.cc` to
  `(CONDUIT_VERSION_MINOR > 8 || CONDUIT_VERSION_PATCH >= 9)`; otherwise UMT does not use the tiled
  meshes of the benchmark problems. The program is `test_driver`.
- **CNS** (https://github.com/BoxLib-Codes/BoxLib, commit 330b1436, `Tutorials/Exp_CNS_NoSpec_F`).
  Remove `call Sleep(5)` from `main.f90`, which is part of the time that it reports. Build without
  `-j`, since the makefiles lack dependencies:
  `make BOXLIB_HOME=... COMP=gfortran NDEBUG=t MPI=t OMP=t FC=mpif90 F90=mpif90`.
  The program is `main.*.exe`.
"""


def page() -> str:
    """The page, Markdown."""
    records = {name: load(name) for name in names()}
    rows = "".join(_row(name, each) for name, each in records.items())
    proofs = "".join(f"- **{name}**: {each.sanity}.\n" for name, each in records.items())
    return _HEAD + rows + _PROOFS + proofs + _RUN


def _row(name: str, workload: Workload) -> str:
    return (
        f"| `{name}`: {workload.title} | {workload.fom} | {workload.unit} | {workload.better} |\n"
    )


if __name__ == "__main__":
    print(page(), end="")
