"""Prints `docs/workloads.md` from the records of the workloads."""

from __future__ import annotations

from reframe_tests.workload import Workload, load, names

_HEAD = """# Workloads

Generated from the `WORKLOAD` of each `reframe_tests/NAME.py`:
`python -m reframe_tests.describe > docs/workloads.md`.

A figure of merit counts only if the run's result is proven correct. All figures are in SI units.

| workload | figure of merit | unit | better |
|---|---|---|---|
"""

_PROOFS = """
## Correctness checks

"""

_RUN = """
## Size and layout

Each check is `reframe_tests/NAME.py`; most have a short form `NAME_quick`: `-t short` runs all of
them, `-t quick` those of STREAM and LAMMPS, in five to eight minutes. Sizes follow from the memory
and cores of a node, ranks and threads from its cores. All of them can be set, for example
`-S hpccg.memory_share=0.5`, or `-S layout_cores=2` for ranks and threads on two cores;
`reframe -c reframe_tests/NAME.py --describe` lists them. A check names the variables that may
change between runs (`within_block`), and says whether its figures of merit can be compared between
numbers of cores (`comparable_across_cores`), which the factor `reserved_cores` needs.

Programs come from the machine's ReFrame environment. With the feature `spack` they are built by
`nimc spack` (docs/spack.md). Otherwise the program must be on PATH, from modules or wheels, or the
check is skipped with a message. A program of the site's that is not on PATH is named in its file,
and then used in every environment. Name it where its MPI is the one that starts it:

    programs:              # site/NAME.yaml
      test_driver: /opt/umt/bin/test_driver
      cns: /opt/cns/main.Linux.gfortran.mpi.exe

Programs of this name are `lmp` (LAMMPS), `test_HPCCG`, `lulesh2.0`, `gsnap` (SNAP), `XSBench`,
`miniFE.x`, `amg`, `test_driver` (UMT) and `cns`.

`stream`, `membench`, `latency`, `intensity` and `numa` are always compiled, in any environment that
names a C compiler (`cc` is not empty). STREAM's arrays are static and sized by the last-level
caches of the node, so one binary from Spack or a module cannot serve all machines.

## UMT and CNS

Spack has no public recipe of them. Build them with the compiler and the MPI that run them, with
gcc 10 and newer with `-fallow-argument-mismatch` for Fortran.

- **UMT** (https://github.com/LLNL/UMT, commit ed70b58e or later: the benchmark problems were
  corrected after 5.3.0, which prints its energies otherwise). CMake, from `src/`, with
  `ENABLE_OPENMP=ON`, `CONDUIT_ROOT`, `MPI_CXX_COMPILER` and `MPI_Fortran_COMPILER`. Conduit needs
  Fortran and MPI and must be 0.8.9 or later: the benchmark problems are on tiled meshes. UMT takes
  every 0.9.x with x below 9 for one without them: in `src/teton/driver/test_driver.cc` change
  `CONDUIT_VERSION_PATCH >= 9` to
  `(CONDUIT_VERSION_MINOR > 8 || CONDUIT_VERSION_PATCH >= 9)`. The program is `test_driver`.
- **CNS** (https://github.com/BoxLib-Codes/BoxLib, commit 330b1436, `Tutorials/Exp_CNS_NoSpec_F`).
  It sleeps for five seconds within the time it reports, which hides what writers do: remove
  `call Sleep(5)` from `main.f90`. `make BOXLIB_HOME=... COMP=gfortran NDEBUG=t MPI=t OMP=t
  FC=mpif90 F90=mpif90`, without `-j`: the makefiles do not know all dependencies of the modules.
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
