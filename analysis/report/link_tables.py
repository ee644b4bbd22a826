"""Tables of correlations in the form of Table IV of Groves, Grant and Arnold (2016)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.numbers import NONE
from analysis.paper import paper
from analysis.role_links import MISSES, STALLS, TIME, RoleLink
from analysis.statistics.correlation import Correlation, of_r

#: Applications of figure 4, which are the points of Table IV.
_PUBLISHED_POINTS = 6
#: Column of Table IV in paper.json -> role.
_PUBLISHED = dict(
    zip(("stalled_cycles", "l1_miss", "l2_miss", "l3_miss"), (STALLS, *MISSES), strict=True)
)
#: Roles of Table IV, in its order.
TABLE = (STALLS, *MISSES)
#: r, its interval, its p value, and the number of points.
Cell = tuple[str, str, str, str]
_EMPTY: Cell = ("", "", "", "")


@dataclass(frozen=True)
class LinkRow:
    """One row of a table of correlations."""

    treatment: str
    of: str
    #: One cell per role of `TABLE`: r, interval, p value and points; empty if not measured.
    cells: list[Cell]
    published: bool = False


@dataclass(frozen=True)
class LinkTable:
    """The correlations across workloads, or of one case."""

    name: str
    rows: list[LinkRow]
    #: Treatment, role and cell of the roles that the paper has not, against the time.
    others: list[tuple[str, str, Cell]]


def link_table(name: str, links: Sequence[RoleLink], *, published: bool = False) -> LinkTable:
    """The links of one case, or across workloads, then with the published rows beside them."""
    of = {(link.treatment, link.of, link.to): link for link in links}
    sources = dict.fromkeys((link.treatment, link.of) for link in links)
    rows = [
        LinkRow(treatment, source, [_cell(of.get((treatment, source, to))) for to in TABLE])
        for treatment, source in sources
        if any((treatment, source, to) in of for to in TABLE)
    ]
    others = [(link.treatment, link.to, _cell(link)) for link in links if link.to not in TABLE]
    return LinkTable(name, rows + (_published() if published else []), others)


def _cell(link: RoleLink | None) -> Cell:
    if link is None:
        return _EMPTY
    points = f"{link.points} points"
    if link.correlation is None:
        return NONE, "", "", points
    return _figures(link.correlation, p_text(link.p), points)


def _figures(found: Correlation, p: str, points: str) -> Cell:
    return f"{found.r:.3f}", f"{found.low:.2f} to {found.high:.2f}", p, points


def _published() -> list[LinkRow]:
    """Table IV as printed; intervals follow from its r and its six points."""
    names = {"time": TIME, "stalled_cycles": STALLS}
    points = f"{_PUBLISHED_POINTS} points"
    rows = []
    for treatment, sources in paper()["table_4_pearson_r"].items():
        for source, values in sources.items():
            cells = [
                _figures(of_r(values[key], _PUBLISHED_POINTS), "", points)
                if key in values
                else _EMPTY
                for key in _PUBLISHED
            ]
            rows.append(LinkRow(treatment, names[source], cells, published=True))
    return rows


def p_text(p: float | None) -> str:
    """`p = 0.012`, `p < 0.001`."""
    if p is None:
        return NONE
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
