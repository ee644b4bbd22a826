"""Prints `docs/workloads.md`, which is made from the table of workloads."""

from __future__ import annotations

from reframe_tests.workloads import WORKLOADS, Workload

_HEAD = """# Workloads

Made from `reframe_tests/workloads.py`: `python -m reframe_tests.describe > docs/workloads.md`.

A figure of merit counts only with the proof that the answer is right. All figures are in SI units.

| workload | figure of merit | unit | better |
|---|---|---|---|
"""

_PROOFS = """
## What each must prove

"""

_RUN = """
## Size and layout

Each check is `reframe_tests/NAME.py`, mostly with `NAME_quick` as its short form. Sizes follow from
the memory and cores of a node, ranks and threads from its cores; every one can be set, as in
`-S hpccg.memory_share=0.5`, or `-S layout_cores=2` for ranks and threads on two cores.
`reframe -c reframe_tests/NAME.py --describe` lists them. A check names the variables that may
change from one run to the next (`within_block`), and says whether its figures of merit can be
compared between numbers of cores (`comparable_across_cores`), which `reserved_cores` needs.

Programs come from the machine's ReFrame environment: with the feature `spack` they are built by
`nimc spack` (docs/spack.md); otherwise the program must be on PATH, from modules or wheels, or the
check is skipped and says so.

`stream`, `membench` and `numa` are compiled where they run, in an environment
with the feature `wheels`, whatever else the machine has. STREAM's arrays are static and must follow
the last-level caches of the node, so that no binary built once, by Spack or a module, can serve.
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
