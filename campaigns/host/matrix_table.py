"""The matrix of what can run where, as text."""

from __future__ import annotations

from campaigns.host.matrix import Matrix, MatrixCell
from campaigns.text import WIDTH, wrapped

_GAP = "  "


def matrix_table(matrix: Matrix) -> str:
    """Workloads by places in 80 columns, then each reason with the workloads it applies to."""
    places = list(dict.fromkeys(cell.place for cell in matrix.cells))
    workloads = list(dict.fromkeys(cell.workload for cell in matrix.cells))
    runs = {(cell.workload, cell.place): cell.runs for cell in matrix.cells}
    first = max(map(len, ["workload", *workloads]), default=0)
    lines = [] if places else ["workload"]
    for part in _parts(places, WIDTH - first):
        lines.append(_GAP.join(["workload".ljust(first), *part]))
        lines += [
            _GAP.join([name.ljust(first), *(runs[name, at].ljust(len(at)) for at in part)]).rstrip()
            for name in workloads
        ]
    return "\n".join([*lines, "", *reasons(matrix.cells)]).rstrip()


def _parts(places: list[str], width: int) -> list[list[str]]:
    """As many places side by side as fit."""
    parts: list[list[str]] = []
    used = 0
    for place in places:
        used += len(_GAP) + len(place)
        if not parts or used > width:
            parts.append([])
            used = len(_GAP) + len(place)
        parts[-1].append(place)
    return parts


def reasons(cells: list[MatrixCell]) -> list[str]:
    """Lines `WORKLOADS on PLACE: REASON`, each reason of a place once."""
    found: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        if cell.reason:
            found.setdefault((cell.place, cell.reason), []).append(cell.workload)
    by_place = sorted(found.items(), key=lambda each: each[0][0])
    return [
        wrapped(f"{', '.join(workloads)} on {place}: {reason}")
        for (place, reason), workloads in by_place
    ]
