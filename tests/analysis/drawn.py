"""What a figure and a table show, read from SVG and HTML."""

import re
from collections import Counter


def rows_of(page: str, place: str) -> list[list[str]]:
    """Texts of the cells of the first table after some HTML."""
    body = page[page.index(place) :].split("<tbody>")[1].split("</tbody>")[0]
    rows = re.findall(r"<tr.*?</tr>", body, re.DOTALL)
    cells = [re.findall(r"<t[dh].*?</t[dh]>", row, re.DOTALL) for row in rows]
    return [[" ".join(re.sub(r"<[^>]+>", " ", each).split()) for each in row] for row in cells]


def bars(svg: str) -> Counter[str]:
    """The number of intervals, by the name of their colour."""
    return Counter(re.findall(r"stroke: var\(--([\w-]+)\); stroke-width: 3[;\"]", svg))
