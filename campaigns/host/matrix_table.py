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


def matrix_by_place(matrix: Matrix) -> str:
    """What each place can run, a line each, then the reasons."""
    lines = []
    for place in dict.fromkeys(cell.place for cell in matrix.cells):
        runs = {
            state: ", ".join(
                c.workload for c in matrix.cells if (c.place, c.runs) == (place, state)
            )
            for state in ("yes", "unknown")
        }
        unknown = f"; unknown: {runs['unknown']}" if runs["unknown"] else ""
        lines.append(wrapped(f"{place}: {runs['yes'] or 'nothing'}{unknown}"))
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
    """Lines `WORKLOADS on PLACE: REASON`, each reason of a place once.

    Those that name one thing (`no program lmp`) are one line of all things.
    """
    found: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for cell in cells:
        if cell.reason:
            kind, things = cell.reason, []
            if cell.reason.count(" ") == 2:
                kind, _, thing = cell.reason.rpartition(" ")
                things = [thing]
            workloads, known = found.setdefault((cell.place, kind), ([], []))
            workloads.append(cell.workload)
            known += [thing for thing in things if thing not in known]
    return [
        wrapped(f"{', '.join(workloads)} on {place}: {' '.join([kind, ', '.join(things)]).strip()}")
        for (place, kind), (workloads, things) in sorted(found.items(), key=lambda each: each[0][0])
    ]
