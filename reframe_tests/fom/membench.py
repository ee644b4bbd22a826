"""membench: the total rate of all cores while all of them were busy."""

from __future__ import annotations

import re

from reframe_tests.fom.base import FLOAT, Fom, FomError, last_match, require_positive


def parse(stdout: str) -> Fom:
    """Bandwidth in B/s, by the kernel's count of bytes; also what `facts` finds.

    membench prints the line only after it has checked the results and the placement of the pages.
    """
    row = last_match(rf"^FOM (\w+): {FLOAT} B/s$", stdout, "line of membench's figure (FOM)")
    return Fom(require_positive(f"the rate of {row.group(1)}", float(row.group(2))), facts(stdout))


def facts(stdout: str) -> dict[str, float]:
    """Cores, arrays, their size, the window, and where the memory was; raises FomError.

    `node` is the NUMA node that the arrays are bound to, if any; `streaming` is 1 if stores went
    past the caches, 0 if through them; `huge_b` of `memory_b` lie in huge pages, if the kernel says
    so; `flops_per_element` is that of `intensity`.
    """
    if "results are right" not in stdout:
        raise FomError("membench's own check of the results did not pass")
    arrays = last_match(r"^(\d+) arrays? of (\d+) bytes a core", stdout, "line of arrays")
    cores = last_match(r"^(\d+) cores?, processors?", stdout, "line of cores")
    stores = last_match(r"^membench: .* (cached|streaming) stores$", stdout, "line of stores")
    window = last_match(rf"^all cores at work for {FLOAT} s", stdout, "time at work")
    found = {
        "cores": float(cores.group(1)),
        "arrays": float(arrays.group(1)),
        "array_b": float(arrays.group(2)),
        "window_s": float(window.group(1)),
        "streaming": float(stores.group(1) == "streaming"),
    }
    for pattern, names in (
        (r"bound to NUMA node (\d+)$", ["node"]),
        (r"^in huge pages: (\d+) of (\d+) bytes$", ["huge_b", "memory_b"]),
        (r"^(\d+) flops per element$", ["flops_per_element"]),
    ):
        if match := re.search(pattern, stdout, re.MULTILINE):
            found |= dict(zip(names, map(float, match.groups()), strict=True))
    return found
