"""Prints `docs/workloads.md` from the table of workloads."""

from __future__ import annotations

from reframe_tests.workloads import WORKLOADS, Workload

_HEAD = """# Workloads

Generated from `reframe_tests/workloads.py`:
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
them, `-t quick` those of STREAM and LAMMPS, in a few minutes. Sizes follow from the memory and
cores of a node, ranks and threads from its cores. All of them can be set, for example
`-S hpccg.memory_share=0.5`, or `-S layout_cores=2` for ranks and threads on two cores;
`reframe -c reframe_tests/NAME.py --describe` lists them. A check names the variables that may
change between runs (`within_block`), and says whether its figures of merit can be compared between
numbers of cores (`comparable_across_cores`), which the factor `reserved_cores` needs.

Programs come from the machine's ReFrame environment. With the feature `spack` they are built by
`nimc spack` (docs/spack.md). Otherwise the program must be on PATH, from modules or wheels, or the
check is skipped with a message.

`stream`, `membench`, `latency`, `intensity` and `numa` are always compiled, in any environment that
names a C compiler (`cc` is not empty). STREAM's arrays are static and sized by the last-level
caches of the node, so one binary from Spack or a module cannot serve all machines.
"""


def page() -> str:
    """The page, Markdown."""
    rows = "".join(_row(workload) for workload in WORKLOADS.values())
    proofs = "".join(f"- **{row.name}**: {row.sanity}.\n" for row in WORKLOADS.values())
    return _HEAD + rows + _PROOFS + proofs + _RUN


def _row(workload: Workload) -> str:
    return (
        f"| `{workload.name}`: {workload.title} | {workload.fom} | {workload.unit}"
        f" | {workload.better} |\n"
    )


if __name__ == "__main__":
    print(page(), end="")
