"""Draws the report's pictures (colours, axes, intervals), and renders the frame of HTML pages."""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import jinja2
from markupsafe import Markup, escape

from analysis.effects.result import Result
from analysis.statistics.interval import Estimate, Interval
from records.arms import ARMS, arm_and_levels, arm_of
from records.programs import FILE_SYSTEM_ROOT
from records.text import one_line
from records.units import percentage

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Figures are drawn in the light colours below. In the SVG each colour is then replaced by its CSS
# variable, so that a dark scheme needs no second drawing. Rasterized points keep the light
# colours. These are chosen so that they can also be seen on a dark page.


#: Name of the colour of unknown arms.
_OTHER = "other"
#: CSS variable -> its colour in the light and in the dark scheme. `ARMS` has the colours of arms.
COLOURS = {
    "ink": ("#1c2128", "#e6e9ee"),
    "muted": ("#5b6473", "#98a2b3"),
    "grid": ("#dfe3e8", "#333b47"),
    "panel": ("#ffffff", "#171b21"),
    "band": ("#c4cad3", "#4a5361"),
    # Replaces `band` for a baseline that does not repeat itself (`is_steady`).
    "unsteady": ("#e9b9a6", "#7d4a3c"),
    _OTHER: arm_of("").colours,
    # Runs that do not count.
    "uncounted": ("#8a8f98", "#a7adb8"),
    # Levels of a factor with one line per level.
    "level0": ("#c2453c", "#f08a80"),
    "level1": ("#2b7a9b", "#6cc0e0"),
    "level2": ("#5d8a1e", "#a9d45e"),
    "level3": ("#8a4fa3", "#cf9be6"),
    "level4": ("#a8691a", "#e8b164"),
    "level5": ("#4a5aa8", "#9aa8f0"),
}
#: All CSS variables. Some arms, such as `on` and `full`, have the same light colour. The SVG then
#: has the variable of the first of these arms for all of them, so their dark colours must be equal,
#: too.
_VARIABLES = COLOURS | {name: arm.colours for name, arm in ARMS.items()}
#: Colours and markers of a factor's levels; further levels begin again with the first ones.
LEVEL_COLOURS = [name for name in COLOURS if name.startswith("level")]
LEVEL_MARKERS = ("o", "^", "s", "D", "v", "P")
_FONT = "DejaVu Sans"
#: Font size of pictures on pages, for which their heights are chosen.
_PAGE_FONT_SIZE_PT = 10.0
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "nimc",
    "font.family": _FONT,
    # Otherwise a name with two dollar signs would be set as a formula.
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
    # Relative to `font.size`, which pictures may change.
    "legend.fontsize": "small",
    "legend.frameon": False,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.color": COLOURS["grid"][0],
    "ytick.color": COLOURS["grid"][0],
    "xtick.labelcolor": COLOURS["ink"][0],
    "ytick.labelcolor": COLOURS["ink"][0],
}


def colour_variable(name: str) -> str:
    """Return the CSS variable of a name in `COLOURS`, or of a treatment by its arm."""
    return name if name in COLOURS else arm_of(name).name or _OTHER


def light_colour(name: str) -> str:
    """Return the light colour of a name that `colour_variable` takes. Drawings are made with it."""
    return _VARIABLES[colour_variable(name)][0]


def marker(treatment: str) -> str:
    """Return the marker of a treatment's points. It is never the cross that marks rejected runs."""
    return arm_of(treatment).marker


def css_variables(scheme: Literal["light", "dark"]) -> str:
    """Return the CSS declarations of all colours for a scheme."""
    return "".join(
        f"--{name}:{light if scheme == 'light' else dark};"
        for name, (light, dark) in _VARIABLES.items()
    )


@cache
def _matplotlib() -> ModuleType:
    """Load Matplotlib with its default settings, which takes half a second, and return it.

    It must not read a settings file: neither the user's own file, nor the file that MATPLOTLIBRC
    names, nor a file in the current folder, where another user may have put it.
    """
    os.environ["MATPLOTLIBRC"] = os.devnull
    current = Path.cwd()
    os.chdir(FILE_SYSTEM_ROOT)
    try:
        import matplotlib.artist

        # `kwdoc` makes the texts of each class for `help`, which takes a third of the loading time.
        matplotlib.artist.kwdoc = lambda artist: ""  # noqa: ARG005  # the original's argument name
        import matplotlib.figure
    finally:
        os.chdir(current)
    return matplotlib


@contextmanager
def drawing(
    height_in: float,
    width_in: float = 5.0,
    *,
    font_size: float = _PAGE_FONT_SIZE_PT,
    style: Mapping[Any, Any] = {},
) -> Iterator[Figure]:
    """Yield an empty figure in the report's style; `style` replaces parts of this style."""
    mpl = _matplotlib()
    with mpl.rc_context({**_STYLE, "font.size": font_size, **style}):
        yield mpl.figure.Figure(figsize=(width_in, height_in), layout="constrained")


def themed_svg(
    figure: Figure, id_prefix: str, alt_text: str, hover: Mapping[str, Sequence[str]] = {}
) -> Markup:
    """Return `figure` as an `<svg>` element for a page; `id_prefix` makes its ids unique.

    `alt_text` describes the figure for readers who cannot see it. `hover`: id of a group of points
    -> the text of each point that is shown under the pointer.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    FigureCanvasSVG(figure)
    # If the figure has a layout engine, `savefig` draws it twice, the first time for the layout.
    if layout := figure.get_layout_engine():
        layout.execute(figure)
        figure.set_layout_engine(None)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", dpi=200)
    svg = buffer.getvalue().decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    for side in ("width", "height"):
        svg = re.sub(rf'(<svg[^>]*?) {side}="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{escape(alt_text)}"', 1)
    # Only ids are changed, since a label may contain `grid=fine`.
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{id_prefix}-", svg)
    for group, texts in hover.items():
        svg = _with_point_titles(svg, f"{id_prefix}-{group}", texts)
    for css_name, (colour, _) in _VARIABLES.items():
        svg = svg.replace(colour, f"var(--{css_name})")
    return Markup(svg.replace(f"'{_FONT}'", "var(--font)"))


def _with_point_titles(svg: str, group: str, texts: Sequence[str]) -> str:
    """Return `svg` with a title for each point of a group; unchanged if points are rasterized."""
    titles = iter(texts)

    def titled_point(point: re.Match[str]) -> str:
        return f"{point[1]}><title>{escape(next(titles, ''))}</title></use>"

    def titled_group(points: re.Match[str]) -> str:
        return re.sub(r"(<use [^>]*?)/>", titled_point, points[0])

    points_of_group = rf'(?<=<g id="{re.escape(group)}">).*?</g>\s*</g>'
    return re.sub(points_of_group, titled_group, svg, count=1, flags=re.DOTALL)


#: Id of a group of points -> the text of each point that is shown under the pointer.
Hover = Mapping[str, Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture of the report. It is drawn later, when its size is known."""

    #: Name of its files, without `.svg` and `.pdf`.
    name: str
    #: Description of the picture with its numbers, for readers who cannot see it.
    alt_text: str
    caption: str
    height_in: float
    draw: Callable[[Figure], Hover]
    #: The values that tell it apart from other pictures of its section; empty if there are none.
    key_text: str = ""

    def svg(self, anchor: str, width_in: float = 5.0) -> Markup:
        """Return the picture as an `<svg>` element for a page; `anchor` makes its ids unique."""
        with drawing(self.height_in, width_in) as figure:
            return themed_svg(figure, anchor, self.alt_text, self.draw(figure))

    def write(self, path: Path, width_in: float) -> bool:
        """Write `path`.svg and `path`.pdf for print, and return whether the picture fits.

        `width_in` is the width of a printed column. The files contain all glyphs. The font has the
        largest size of `_PRINT_FONT_SIZES_PT` with which the picture fits. If it fits with none of
        these sizes, no file is written.
        """
        for size_pt in _PRINT_FONT_SIZES_PT:
            height_in = self.height_in * size_pt / _PAGE_FONT_SIZE_PT
            with drawing(height_in, width_in, font_size=size_pt, style=_PRINT_STYLE) as figure:
                self.draw(figure)
                if _fits(figure):
                    # Dates are left out, so that the same figure gives the same bytes.
                    svg_metadata = {"Title": self.alt_text, "Date": None}
                    pdf_metadata: dict[str, Any] = {
                        "Title": self.alt_text,
                        "Subject": self.caption,
                        "CreationDate": None,
                    }
                    figure.savefig(f"{path}.svg", metadata=svg_metadata, dpi=_PRINT_DPI)
                    figure.savefig(f"{path}.pdf", metadata=pdf_metadata, dpi=_PRINT_DPI)
                    return True
        return False


#: Font sizes in print, the best first. Journals require at least 6 points.
_PRINT_FONT_SIZES_PT = (8.0, 7.0, 6.0)
#: Style of printed pictures. Glyphs are outlines in SVG and TrueType in PDF, so that no font is
#: needed to show them.
_PRINT_STYLE: dict[Any, Any] = {"svg.fonttype": "path", "pdf.fonttype": 42}
#: Resolution of points that are drawn as one raster image, dots per inch.
_PRINT_DPI = 600
#: Length by which boxes of texts may extend beyond the figure, since the box of a letter is larger
#: than the letter.
_MAX_OUTSIDE_IN = 0.02
#: Smallest share of a picture's width that its widest axes must have. Labels have the remaining
#: width.
_MIN_AXES_SHARE = 0.3


def _fits(figure: Figure) -> bool:
    """Return whether all parts lie within the figure, and labels leave enough width for axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    with warnings.catch_warnings():
        # Matplotlib warns if axes have no room for their texts. This is tested below instead.
        warnings.simplefilter("ignore", UserWarning)
        canvas.draw()
    drawn_box = figure.get_tightbbox(canvas.get_renderer())
    width_in, height_in = figure.get_size_inches()
    return bool(
        max(axes.get_position().width for axes in figure.axes) >= _MIN_AXES_SHARE
        and min(drawn_box.x0, drawn_box.y0) > -_MAX_OUTSIDE_IN
        and drawn_box.x1 < width_in + _MAX_OUTSIDE_IN
        and drawn_box.y1 < height_in + _MAX_OUTSIDE_IN
    )


#: Maximum number of points that are drawn with their shape. If there are more, each is a pixel.
MAX_SHAPED_POINTS = 20_000
#: If there are at least this many points, the size of each point is multiplied by this factor.
_MIN_CROWDED_POINTS, _CROWDED_SIZE_FACTOR = 200, 0.42
#: The treatment that labels of rows do not name.
DEFAULT_TREATMENT = "on"
#: Label of an axis of slowdowns.
SLOWDOWN_AXIS = "slowdown (1 is no effect)"


def label(treatment: str) -> str:
    """Return the axis label of a treatment: its arm, the arm's label, and below them its levels."""
    arm, levels = arm_and_levels(treatment)
    arm_label = arm_of(treatment).label
    if not levels:
        return f"{arm}\n{arm_label}".rstrip()
    levels_text = ", ".join(f"{name.replace('_', ' ')}={level}" for name, level in levels.items())
    return f"{arm} {arm_label}".rstrip() + f"\n{levels_text}"


def rows_axes(
    figure: Figure, labels: Sequence[str], axis_label: str, no_effect: float | None = 1.0
) -> Axes:
    """Return axes with a row for each of `labels`, the first on top, and a line at 'no effect'.

    `axis_label` is the label of the axis of values. `no_effect` is the value that means 'no
    effect', which is 1 for ratios. If it is None, there is no line.
    """
    axes: Axes = figure.subplots()
    if no_effect is not None:
        axes.axvline(no_effect, color=light_colour("muted"), lw=1)
    name_rows(axes, labels, len(labels) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(axis_label)
    return axes


def draw_interval(
    axes: Axes, estimate: Estimate | None, y: float, colour_name: str, shape: str = "|"
) -> None:
    """Draw an estimate as a mark on a coloured bar. If it is None, nothing is drawn."""
    if estimate:
        draw_bar(axes, estimate, y, light_colour(colour_name), 3)
        style: dict[str, Any] = {"ms": 6, "color": light_colour(colour_name)}
        if shape == "|":
            style = {"ms": 11, "mew": 2.5, "color": light_colour("ink")}
        axes.plot(estimate.value, y, marker=shape, zorder=3, **style)


def draw_slowdown(axes: Axes, row: Result, y: float) -> None:
    """Draw a row's slowdown and, for an effect, the next allocation's interval as a thin line."""
    if row.role == "effect":
        draw_bar(axes, row.next, y, light_colour(row.arm), 1.2)
    draw_interval(axes, row.slowdown, y, row.arm)


def thin_line_caption(rows: Sequence[Result]) -> str:
    """Return a caption's sentence on the thin lines of these rows; empty if there are none."""
    if not any(row.next for row in rows if row.role == "effect"):
        return ""
    return "Thin line: where the slowdown of the next allocation is expected. "


def interval_text(rows: Sequence[Result]) -> str:
    """Return a caption's words on the interval of the slowdowns of these rows."""
    for_next_allocation = ""
    if any(row.next for row in rows):
        for_next_allocation = " (for the next allocation, if three or more were measured)"
    return f"with its interval of 95 %{for_next_allocation}"


def estimates_text(estimates: Iterable[tuple[str, Estimate | None]]) -> str:
    """Return named estimates and their intervals as text, for readers who cannot see the figure."""
    return "; ".join(
        f"{name} {ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})".replace("\n", " ")
        for name, ratio in estimates
        if ratio is not None
    )


def repeatability_caption(rows: Sequence[Result]) -> str:
    """Return a caption's sentences on the repeatability that is drawn behind the intervals."""
    unsteady = not all(is_steady(row.noise_floor) for row in rows)
    return (
        "Band behind: baseline repeatability (interval of the estimate of the baseline against "
        "itself; it narrows with more pairs)"
        + ("; it has another colour if this interval does not contain 1." if unsteady else ".")
    )


def draw_repeatability(axes: Axes, repeatability: Interval | None, y: float) -> None:
    """Draw the repeatability of a baseline as a band behind the interval at `y`."""
    if repeatability:
        draw_bar(axes, repeatability, y, light_colour(repeatability_colour(repeatability)), 12)


def repeatability_colour(repeatability: Interval) -> str:
    """Return the name of the colour of a baseline's repeatability, by `is_steady`."""
    return "band" if is_steady(repeatability) else "unsteady"


def is_steady(repeatability: Interval | None) -> bool:
    """Return whether a baseline repeats itself: the interval of its repeatability contains 1."""
    return repeatability is None or repeatability.low <= 1 <= repeatability.high


def draw_points(
    axes: Axes, x: Any, y: Any, colour_name: str, shape: str, size: float, **style: Any
) -> None:
    """Draw points in a colour. Many points are drawn smaller, very many points as pixels."""
    style |= {"ls": "none", "marker": "," if len(x) > MAX_SHAPED_POINTS else shape}
    if len(x) >= _MIN_CROWDED_POINTS:
        size *= _CROWDED_SIZE_FACTOR
    axes.plot(x, y, color=light_colour(colour_name), ms=size, **style)


def draw_bar(
    axes: Axes, bounds: Estimate | Interval | None, y: float, colour: str, width: float
) -> None:
    """Draw a bar from one end of an interval to the other. If it is None, nothing is drawn."""
    if bounds:
        axes.plot([bounds.low, bounds.high], [y, y], color=colour, lw=width, solid_capstyle="butt")


def name_rows(axes: Axes, labels: Sequence[str], bottom: float, top: float) -> None:
    """Give the rows of axes their labels; `bottom` and `top` are the limits of the y axis.

    Row n is at y = n. The first row is on top if `bottom` is larger than `top`.
    """
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(bottom, top)
    axes.tick_params(
        axis="y", labelsize="small" if any("\n" in text for text in labels) else "medium"
    )
    axes.grid(axis="x")


def finish_axes(axes: Axes, x_label: str, y_label: str, **settings: Any) -> None:
    """Add labels and horizontal grid lines after all is drawn; pass `settings` to `Axes.set`."""
    axes.set(xlabel=x_label, ylabel=y_label, **settings)
    axes.grid(axis="y")


def set_logarithmic(axes: Axes, *names: Literal["x", "y"]) -> None:
    """Make axes logarithmic; ticks between powers of ten have numbers if there are few ticks.

    Numbers are plain text, since formulas are turned off (`_STYLE`).
    """
    from matplotlib.ticker import LogFormatter

    for name in names:
        axes.set(**{f"{name}scale": "log"})
        axis = getattr(axes, f"{name}axis")
        axis.set_major_formatter(LogFormatter())
        axis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(1, 0.4)))


# The common frame of all pages: one self-contained file, style, and both colour schemes.

#: Control characters except tabs and line breaks, and marks of the direction of text.
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
#: The variables of a template, by name.
View = SimpleNamespace


def render_page(
    package: str,
    title: str,
    filters: Mapping[str, Callable[..., Any]] = {},
    *,
    template: str = "page.html",
    **values: Any,
) -> str:
    """Render a template of `package`, which extends `shell.html`, with `values`.

    Control characters, and marks that change the direction of text, are shown as escapes.
    """
    environment = _environment(package)
    environment.filters |= filters
    css = files("analysis.report").joinpath("page.css").read_text(encoding="utf-8")
    page = environment.get_template(template).render(
        title=title,
        css=Markup(css),
        light=css_variables("light"),
        dark=css_variables("dark"),
        **values,
    )
    return _CONTROLS.sub(lambda match: one_line(match[0]), page)


@cache
def _environment(package: str) -> jinja2.Environment:
    """Return the environment with the templates of `package`, each compiled once."""
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(name, "") for name in (package, "analysis.report")]
        ),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["percentage"] = percentage
    return environment
