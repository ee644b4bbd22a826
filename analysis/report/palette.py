"""Colours of the report, and figures that follow the reader's colour scheme.

Figures are drawn in the light colours below. In the SVG each colour is then replaced by its CSS
variable, so that a dark scheme needs no second drawing. Rasterized points keep the light
colours, which are chosen to be legible on dark as well.
"""

from __future__ import annotations

import io
import re
from typing import Any

from markupsafe import escape
from matplotlib.figure import Figure

from analysis.arms import ARMS, arm_of

#: Unknown arms share one colour.
_OTHER = "other"
#: CSS variables of everything but arms -> (light, dark).
COLOURS = {
    "ink": ("#1c2128", "#e6e9ee"),
    "muted": ("#5b6473", "#98a2b3"),
    "grid": ("#dfe3e8", "#333b47"),
    "panel": ("#ffffff", "#171b21"),
    "band": ("#c4cad3", "#4a5361"),
    _OTHER: arm_of("").colours,
    "bad": ("#8a8f98", "#a7adb8"),
    # Levels of a factor with one line per level.
    "level0": ("#c2453c", "#f08a80"),
    "level1": ("#2b7a9b", "#6cc0e0"),
    "level2": ("#5d8a1e", "#a9d45e"),
    "level3": ("#8a4fa3", "#cf9be6"),
    "level4": ("#a8691a", "#e8b164"),
    "level5": ("#4a5aa8", "#9aa8f0"),
}
#: All CSS variables; arms that look alike, as `full` and `on`, have the same light colour.
_VARIABLES = COLOURS | {name: arm.colours for name, arm in ARMS.items()}
#: Colours of levels; further levels start again.
LEVEL_COLOURS = [name for name in COLOURS if name.startswith("level")]
LEVEL_MARKERS = ("o", "^", "s", "D", "v", "P")
_FONT = "DejaVu Sans"
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": _FONT,
    "font.size": 10,
    # A name with two dollar signs is no formula.
    "text.parse_math": False,
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


def variable(name: str) -> str:
    """The CSS variable of a name in `COLOURS`, or of a treatment by its arm."""
    return name if name in COLOURS else arm_of(name).name or _OTHER


def light(name: str) -> str:
    """The light colour, used for drawing."""
    return _VARIABLES[variable(name)][0]


def marker(treatment: str) -> str:
    """The marker of a treatment's points; never the cross of rejected runs."""
    return arm_of(treatment).marker


def css_variables(scheme: int) -> str:
    """Declarations of all colours for the light (0) or the dark (1) scheme."""
    return "".join(f"--{name}:{pair[scheme]};" for name, pair in _VARIABLES.items())


def themed_svg(figure: Figure, name: str, title: str) -> str:
    """`figure` as an `<svg>` element for a page; `name` makes its ids unique."""
    out = io.BytesIO()
    figure.savefig(out, format="svg", dpi=200)
    svg = out.getvalue().decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1)
    # Only ids: a label may contain `grid=fine`.
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    for css, (colour, _) in _VARIABLES.items():
        svg = svg.replace(colour, f"var(--{css})")
    return svg.replace(f"'{_FONT}'", "var(--font)")
