"""Colours of the report, and figures that follow the reader's colour scheme.

Figures are drawn in the light colours below. In the SVG each of them is then replaced by its CSS
variable, so that a dark scheme redraws nothing. Points that were rasterized keep the light
colours, which are chosen to be legible on dark as well.
"""

from __future__ import annotations

import io
import re
from typing import Any

from matplotlib.figure import Figure

#: Name of the CSS variable -> (light, dark). The light ones must differ from one another.
COLOURS = {
    "ink": ("#1c2128", "#e6e9ee"),
    "muted": ("#667080", "#98a2b3"),
    "grid": ("#dfe3e8", "#333b47"),
    "panel": ("#ffffff", "#171b21"),
    "band": ("#c4cad3", "#4a5361"),
    "off": ("#2f6fbb", "#6aa9f4"),
    "aa": ("#6f9fd0", "#9cc7f7"),
    "on": ("#c8434f", "#f4838c"),
    "spin": ("#b7791f", "#e3b341"),
    "daly": ("#7d5ba6", "#b79ae0"),
    "constant": ("#2f8f5b", "#6fd09b"),
    "other": ("#b0479a", "#e08fd0"),
    "bad": ("#8a8f98", "#a7adb8"),
}
_FONT = "DejaVu Sans"
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": _FONT,
    "font.size": 10,
    "text.color": COLOURS["ink"][0],
    "axes.labelcolor": COLOURS["muted"][0],
    "axes.edgecolor": COLOURS["grid"][0],
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "figure.facecolor": "none",
    "grid.color": COLOURS["grid"][0],
    "grid.linewidth": 0.8,
    "xtick.color": COLOURS["grid"][0],
    "ytick.color": COLOURS["grid"][0],
    "xtick.labelcolor": COLOURS["ink"][0],
    "ytick.labelcolor": COLOURS["ink"][0],
}
#: Arm -> how its points look; shape as well as colour, for readers who tell no red from green.
_MARKERS = {"off": "o", "on": "^", "spin": "s", "aa": "D", "daly": "v", "constant": "P"}
#: An arm that is another by a second name, and looks like it.
_SAME = {"full": "on"}


def variable(name: str) -> str:
    """The name in `COLOURS` of a colour or an arm; arms without one of their own share one."""
    name = _SAME.get(name, name)
    return name if name in COLOURS else "other"


def light(name: str) -> str:
    """The colour to draw with."""
    return COLOURS[variable(name)][0]


def marker(arm: str) -> str:
    """The shape of an arm's points, none of them a rejected run's cross."""
    return _MARKERS.get(_SAME.get(arm, arm), "p")


def css_variables(scheme: int) -> str:
    """Declarations of all colours, of the light (0) or the dark (1) scheme."""
    return "".join(f"--{name}:{pair[scheme]};" for name, pair in COLOURS.items())


def themed_svg(figure: Figure, name: str, title: str) -> str:
    """`figure` as an `<svg>` element for a page; `name` keeps its ids apart from other figures'."""
    out = io.BytesIO()
    figure.savefig(out, format="svg", dpi=200)
    svg = out.getvalue().decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{title}"', 1)
    svg = re.sub(r'((?:id=|href=|url\()"?#?)([A-Za-z][\w.-]*)', rf"\g<1>{name}-\2", svg)
    for variable, (colour, _) in COLOURS.items():
        svg = svg.replace(colour, f"var(--{variable})")
    return svg.replace(f"'{_FONT}'", "var(--font)")
