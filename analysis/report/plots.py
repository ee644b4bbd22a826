"""The figures of the report, of which all samples are drawn; the frame of all pages."""

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
import numpy as np
import polars as pl
from markupsafe import Markup, escape

from analysis.effects.result import Result
from analysis.statistics.interval import Estimate, Interval, bracketed, middle
from records.arms import ARMS, arm_of, in_order, parts_of
from records.programs import START_FOLDER
from records.text import one_line
from records.units import number, scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Figures are drawn in the light colours below. In the SVG each colour is then replaced by its CSS
# variable, so that a dark scheme needs no second drawing. Rasterized points keep the light
# colours, which are chosen to be legible on dark as well.


#: Unknown arms share one colour.
_OTHER = "other"
#: CSS variables of everything but arms -> (light, dark).
COLOURS = {
    "ink": ("#1c2128", "#e6e9ee"),
    "muted": ("#5b6473", "#98a2b3"),
    "grid": ("#dfe3e8", "#333b47"),
    "panel": ("#ffffff", "#171b21"),
    "band": ("#c4cad3", "#4a5361"),
    # The same of a baseline that does not repeat itself.
    "unsteady": ("#e9b9a6", "#7d4a3c"),
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
#: Colours and markers of levels; further levels start again.
LEVEL_COLOURS = [name for name in COLOURS if name.startswith("level")]
LEVEL_MARKERS = ("o", "^", "s", "D", "v", "P")
_FONT = "DejaVu Sans"
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "nimc",
    "font.family": _FONT,
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
    # Of the size of all text, so that a picture may be drawn in another one.
    "legend.fontsize": "small",
    "legend.frameon": False,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
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


@cache
def _matplotlib() -> ModuleType:
    """Matplotlib, with its own settings alone; takes half a second to load.

    It looks for others in the current folder, where another user may have put some, and then where
    MATPLOTLIBRC says, else in the user's own.
    """
    os.environ["MATPLOTLIBRC"] = os.devnull
    current = Path.cwd()
    os.chdir(START_FOLDER)
    try:
        import matplotlib.artist

        # Texts for `help` of each class take a third of the time to load.
        matplotlib.artist.kwdoc = lambda artist: ""  # noqa: ARG005  # its own name
        import matplotlib.figure
    finally:
        os.chdir(current)
    return matplotlib


@contextmanager
def drawing(
    height_in: float,
    width_in: float = 5.0,
    *,
    font_size: float = 10,
    style: Mapping[Any, Any] = {},
) -> Iterator[Figure]:
    """An empty figure in the report's style, changed by `style`."""
    mpl = _matplotlib()
    with mpl.rc_context({**_STYLE, "font.size": font_size, **style}):
        yield mpl.figure.Figure(figsize=(width_in, height_in), layout="constrained")


def themed_svg(
    figure: Figure, name: str, title: str, hover: Mapping[str, Sequence[str]] = {}
) -> Markup:
    """`figure` as an `<svg>` element for a page; `name` makes its ids unique.

    `hover`: id of a group of points -> what a pointer shows of each of them.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    FigureCanvasSVG(figure)
    # `savefig` would draw all of it a first time, for its layout.
    if layout := figure.get_layout_engine():
        layout.execute(figure)
        figure.set_layout_engine(None)
    out = io.BytesIO()
    figure.savefig(out, format="svg", dpi=200)
    svg = out.getvalue().decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    for side in ("width", "height"):
        svg = re.sub(rf'(<svg[^>]*?) {side}="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1)
    # Only ids: a label may contain `grid=fine`.
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    for group, texts in hover.items():
        svg = _with_titles(svg, f"{name}-{group}", texts)
    for css, (colour, _) in _VARIABLES.items():
        svg = svg.replace(colour, f"var(--{css})")
    return Markup(svg.replace(f"'{_FONT}'", "var(--font)"))


def _with_titles(svg: str, group: str, texts: Sequence[str]) -> str:
    """The points of a group with a title each; none are there if they are one picture."""
    titles = iter(texts)
    return re.sub(
        rf'(?<=<g id="{re.escape(group)}">).*?</g>\s*</g>',
        lambda points: re.sub(
            r"(<use [^>]*?)/>",
            lambda point: f"{point[1]}><title>{escape(next(titles, ''))}</title></use>",
            points[0],
        ),
        svg,
        count=1,
        flags=re.DOTALL,
    )


#: Id of a group of points -> what a pointer shows of each of them.
Hover = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Picture:
    """A picture of the report, which is drawn when its size is known."""

    #: Of its files.
    name: str
    #: Its figures in words, for readers who do not see it.
    title: str
    caption: str
    height_in: float
    draw: Callable[[Figure], Hover]
    #: Which of several pictures of a section it is; empty for one.
    part: str = ""

    def svg(self, anchor: str, width_in: float = 5.0) -> Markup:
        """For a page, where `anchor` makes its ids unique."""
        with drawing(self.height_in, width_in) as figure:
            return themed_svg(figure, anchor, self.title, self.draw(figure))

    def write(self, path: Path, width_in: float) -> bool:
        """Write `path`.svg and `path`.pdf for a printed column, with all glyphs in them.

        The letters are smaller if the picture needs it; False if it does not fit then either, and
        no file is written.
        """
        for size_pt in _SIZES_PT:
            with drawing(
                self.height_in * size_pt / 10, width_in, font_size=size_pt, style=_PRINTED
            ) as figure:
                self.draw(figure)
                if _fits(figure):
                    about = {"Title": self.title}
                    figure.savefig(f"{path}.svg", metadata={**about, "Date": None}, dpi=_PRINT_DPI)
                    about["Subject"] = self.caption
                    dates: dict[str, Any] = {"CreationDate": None}
                    figure.savefig(f"{path}.pdf", metadata={**about, **dates}, dpi=_PRINT_DPI)
                    return True
        return False


#: Sizes of letters in print, points, the best first; journals ask for 6 at the least.
_SIZES_PT = (8.0, 7.0, 6.0)
#: Glyphs of SVG as outlines, those of PDF as TrueType: a reader needs no font.
_PRINTED: dict[Any, Any] = {"svg.fonttype": "path", "pdf.fonttype": 42}
#: Of points that are one raster image.
_PRINT_DPI = 600
#: Boxes of letters are a little larger than what is drawn of them.
_OUTSIDE_IN = 0.02
#: Least share of the width that is left for the figures of a picture.
_LEAST_AXES = 0.3


def _fits(figure: Figure) -> bool:
    """Whether all that is drawn is within the figure, and labels leave room for what they name."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    with warnings.catch_warnings():
        # Axes without room for their texts.
        warnings.simplefilter("ignore", UserWarning)
        canvas.draw()
    drawn = figure.get_tightbbox(canvas.get_renderer())
    width_in, height_in = figure.get_size_inches()
    return bool(
        max(axes.get_position().width for axes in figure.axes) >= _LEAST_AXES
        and min(drawn.x0, drawn.y0) > -_OUTSIDE_IN
        and drawn.x1 < width_in + _OUTSIDE_IN
        and drawn.y1 < height_in + _OUTSIDE_IN
    )


#: Above this many points, a figure's points are rasterized.
RASTER_ABOVE = 3000
#: Above this many points, a treatment's points are single pixels.
PIXELS_ABOVE = 20_000
#: Most characters that a pointer shows of a run.
_TITLE = 200
#: Width of the picture of all cases on wide screens, inches.
WIDE_IN = 9.9
#: The treatment that figures do not name.
PLAIN = "on"
_SLOWDOWN = "slowdown (1 is no effect)"


def label(treatment: str) -> str:
    """A treatment's axis label: its arm with the arm's label, and its levels below."""
    (arm, levels), text = parts_of(treatment), arm_of(treatment).label
    if not levels:
        return f"{arm}\n{text}".rstrip()
    named = ", ".join(f"{name.replace('_', ' ')}={level}" for name, level in levels.items())
    return f"{arm} {text}".rstrip() + f"\n{named}"


#: Columns that a pointer shows of a run.
_OF_TITLES = ("key", "nodes", "fom", "status", "outcome", "reason")
#: Status of a run, or `lost` without a figure of merit -> marker and look; those of a run that
#: counts are its treatment's.
_LOOKS: dict[str, tuple[str, dict[str, Any]]] = {
    "counts": ("", {"alpha": 0.75, "mew": 0}),
    "warm-up": ("o", {"mfc": "none"}),
    "rejected": ("x", {}),
    "lost": ("x", {"clip_on": False}),
}


def samples_plot(samples: pl.DataFrame, unit: str, name: str = "runs") -> Picture:
    """All samples of one case: one strip per treatment, in order of time, with its median.

    `samples` has the columns of `pairs.judged`. A run without a figure of merit is a cross at the
    left edge. Runs that do not count are drawn at the edge if they lie beyond it, so that
    they do not squeeze those that do.
    """
    treatments = in_order(str(name) for name in samples["arm"].unique(maintain_order=True))
    factor, scaled = scale(middle(samples["fom"].drop_nulls()), one_line(unit))
    counted = samples.select("arm", "fom", "status").filter(status="counts")
    medians = dict(counted.group_by("arm").agg(pl.median("fom") / factor).iter_rows())
    raster = samples.height > RASTER_ABOVE
    status = pl.col("status").cast(pl.String)
    drawn = samples.select(
        "arm",
        *(() if raster else _OF_TITLES),
        x=(pl.col("fom") / factor).clip(*_edges(counted["fom"] / factor)).fill_null(0),
        look=pl.when(pl.col("fom").is_null()).then(pl.lit("lost")).otherwise(status),
    )

    def draw(figure: Figure) -> Hover:
        hover: dict[str, list[str]] = {}
        axes = figure.subplots()
        for strip, treatment in enumerate(treatments):
            runs = drawn.filter(pl.col("arm") == treatment)
            places = np.linspace(strip - 0.34, strip + 0.34, runs.height + 2)[1:-1]
            runs = runs.with_columns(y=places)
            for (kind,), part in runs.partition_by("look", as_dict=True).items():
                gid, (shape, how) = f"points-{strip}-{kind}", _LOOKS[str(kind)]
                colour = "bad" if shape else treatment
                how = {**how, "gid": gid, "rasterized": raster}
                if kind == "lost":
                    how["transform"] = axes.get_yaxis_transform()
                points(axes, part["x"], part["y"], colour, shape or marker(treatment), 4.8, **how)
                hover[gid] = [] if raster else _titles(part, factor, scaled)
            if treatment in medians:
                ends = strip - 0.42, strip + 0.42
                axes.vlines(medians[treatment], *ends, color=light("ink"))
        _rows(axes, [label(name) for name in treatments], len(treatments) - 0.45, -0.55)
        axes.set_xlabel(f"{'rate' if scaled.endswith('/s') else 'time'} in {scaled}")
        axes.margins(x=0.06)
        return hover

    texts = "; ".join(
        f"{treatment} {number(medians[treatment])}"
        for treatment in treatments
        if treatment in medians
    )
    return Picture(
        name,
        f"Every sample in {scaled}, by treatment. Medians: {texts}",
        f"All {samples.height} runs, one point each, in order of time within each treatment. Line: "
        "median. Hollow: warm-up. Cross: rejected. Warm-ups and rejected runs out of range are "
        "drawn at the edge, and runs without a figure of merit outside it.",
        0.7 + 0.44 * len(treatments),
        draw,
    )


def _titles(runs: pl.DataFrame, factor: float, unit: str) -> list[str]:
    """What a pointer shows of each run."""
    titles = []
    for key, nodes, fom, status, outcome, reason in runs.select(_OF_TITLES).iter_rows():
        figure = "no figure of merit" if fom is None else f"{number(fom / factor)} {unit}"
        why = f"; {outcome.replace('_', ' ')}: {reason}" if status == "rejected" else ""
        titles.append(one_line(f"{key} on {nodes}, {status}: {figure}{why}")[:_TITLE])
    return titles


def _edges(counted: pl.Series) -> tuple[float, float]:
    """Lowest and highest value to draw: the range of those that count, plus a quarter of it."""
    if counted.is_empty():
        return -np.inf, np.inf
    low, high = float(np.min(counted.to_numpy())), float(np.max(counted.to_numpy()))
    room = (high - low or high) / 4
    return low - room, high + room


def rows_axes(figure: Figure, labels: Sequence[str], axis: str, line: float | None = 1.0) -> Axes:
    """Axes with a row for each of `labels`, the first on top, and a line where there is no effect.

    That is at 1 for ratios; None draws no line.
    """
    axes: Axes = figure.subplots()
    if line is not None:
        axes.axvline(line, color=light("muted"), lw=1)
    _rows(axes, labels, len(labels) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(axis)
    return axes


def interval(axes: Axes, estimate: Estimate | None, y: float, name: str, shape: str = "|") -> None:
    """A bar in the colour of `name`, and the estimate on it; nothing without one."""
    if estimate:
        _bar(axes, estimate, y, light(name), 3)
        style: dict[str, Any] = {"ms": 6, "color": light(name)}
        if shape == "|":
            style = {"ms": 11, "mew": 2.5, "color": light("ink")}
        axes.plot(estimate.value, y, marker=shape, zorder=3, **style)


def estimates_text(estimates: Iterable[tuple[str, Estimate | None]]) -> str:
    """Estimates with their intervals by name, for readers who do not see the figure."""
    return "; ".join(
        f"{name} {ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})".replace("\n", " ")
        for name, ratio in estimates
        if ratio is not None
    )


def ratios_plot(pairs: pl.DataFrame, rows: Sequence[Result], name: str = "pairs") -> Picture:
    """The slowdown of every pair of one case by treatment, each with interval and repeatability."""
    raster = pairs.height > RASTER_ABOVE
    one_floor = len({row.baseline for row in rows}) == 1

    def draw(figure: Figure) -> Hover:
        hover: dict[str, list[str]] = {}
        axes = rows_axes(figure, [label(row.arm) for row in rows], _SLOWDOWN)
        floor = rows[0].noise_floor
        if one_floor and floor:
            axes.axvspan(*floor, color=light(_floor(floor)), alpha=0.45)
        for line, row in enumerate(rows):
            if not one_floor:
                band(axes, row.noise_floor, line)
            of_arm = pairs.filter(pl.col("arm") == row.arm)
            ratios = of_arm["ratio"].to_numpy()
            across = line + np.linspace(-0.12, 0.3, len(ratios) + 2)[1:-1]
            style = {"alpha": 0.7, "mew": 0, "rasterized": raster, "gid": f"pairs-{line}"}
            points(axes, ratios, across, row.arm, marker(row.arm), 4.4, **style)
            if not raster:
                hover[f"pairs-{line}"] = [
                    f"block {block}, pair {pair}: {ratio:.3f}"
                    for block, pair, ratio in of_arm.select("block", "pair", "ratio").iter_rows()
                ]
            interval(axes, row.slowdown, line - 0.27, row.arm)
        return hover

    estimates = estimates_text((row.arm, row.slowdown) for row in rows)
    return Picture(
        name,
        f"Slowdown of every pair. Estimates: {estimates}",
        "One point per pair: the treatment against its baseline. Bar: estimate and interval of "
        f"95 %. {behind(rows)}",
        0.9 + (0.66 if one_floor else 0.5) * len(rows),
        draw,
    )


def behind(rows: Sequence[Result]) -> str:
    """What lies behind the intervals of a picture: a sentence or two for its caption."""
    unsteady = not all(steady(row.noise_floor) for row in rows)
    return (
        "Band behind: baseline repeatability (interval of the estimate of the baseline against "
        "itself; it narrows with more pairs)"
        + ("; it has another colour where that lies off 1." if unsteady else ".")
    )


def overview_plot(rows: Sequence[Result], published: Sequence[float | None], name: str) -> Picture:
    """The effects of all cases, one row each, with repeatability, control and published slowdown.

    A published one is a hollow diamond; None where there is none.
    """
    labels = [row.case if row.arm == PLAIN else f"{row.case} {label(row.arm)}" for row in rows]
    others = [(value, line) for line, value in enumerate(published) if value is not None]

    def draw(figure: Figure) -> Hover:
        axes = rows_axes(figure, labels, _SLOWDOWN)
        beside = axes.get_yaxis_transform()
        for line, row in enumerate(rows):
            band(axes, row.noise_floor, line)
            _bar(axes, row.control, line + 0.22, light("spin"), 3)
            interval(axes, row.slowdown, line, row.arm)
            axes.text(
                1.02, line, bracketed(row.slowdown), va="center", size="small", transform=beside
            )
        style: dict[str, Any] = {"ms": 7, "mfc": "none", "mec": light("ink"), "mew": 1.4}
        if others:
            axes.plot(*zip(*others, strict=True), "D", gid="published", **style)
        return {}

    title = estimates_text((label, row.slowdown) for label, row in zip(labels, rows, strict=True))
    texts = "; ".join(f"{rows[line].case} {value:.3f}" for value, line in others)
    title += f". Published: {texts}" if others else ""
    caption = "Slowdown of the typical run under writes, with its interval of 95 %. "
    caption += behind(rows)
    if any(row.control for row in rows):
        caption += " Bar below: control, a busy process instead of the writers."
    if others:
        caption += " Diamond: published by Groves, Grant and Arnold (2016)."
    title = f"Slowdown of every case: {title}"
    return Picture(name, title, caption, 0.7 + 0.42 * len(rows), draw)


def band(axes: Axes, repetition: Interval | None, line: int) -> None:
    """The repeatability of a row's baseline, behind its interval."""
    if repetition:
        _bar(axes, repetition, line, light(_floor(repetition)), 12)


def _floor(repetition: Interval) -> str:
    """The colour of a baseline's repeatability: another if its repetition lies off 1."""
    return "band" if steady(repetition) else "unsteady"


def steady(repetition: Interval | None) -> bool:
    """Whether a baseline repeats itself: the interval of its repetition holds 1."""
    return repetition is None or repetition.low <= 1 <= repetition.high


def points(axes: Axes, x: Any, y: Any, name: str, shape: str, size: float, **style: Any) -> None:
    """Points in the colour of `name`: small ones if there are many, pixels if very many."""
    style |= {"ls": "none", "marker": "," if len(x) > PIXELS_ABOVE else shape}
    axes.plot(x, y, color=light(name), ms=size if len(x) < 200 else 0.42 * size, **style)


def _bar(
    axes: Axes, bounds: Estimate | Interval | None, y: float, colour: str, width: float
) -> None:
    if bounds:
        axes.plot([bounds.low, bounds.high], [y, y], color=colour, lw=width, solid_capstyle="butt")


def _rows(axes: Axes, labels: Sequence[str], bottom: float, top: float) -> None:
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(bottom, top)
    axes.tick_params(
        axis="y", labelsize="small" if any("\n" in text for text in labels) else "medium"
    )
    axes.grid(axis="x")


def finish(axes: Axes, x: str, y: str, **settings: Any) -> None:
    """Labels and horizontal grid lines, once all is drawn; `settings` as of `Axes.set`."""
    axes.set(xlabel=x, ylabel=y, **settings)
    axes.grid(axis="y")


def logarithmic(axes: Axes, *which: Literal["x", "y"]) -> None:
    """Makes axes logarithmic; ticks between powers of ten have numbers if few.

    They are plain numbers: figures do not set formulas (`_STYLE`).
    """
    from matplotlib.ticker import LogFormatter

    for name in which:
        axes.set(**{f"{name}scale": "log"})
        axis = getattr(axes, f"{name}axis")
        axis.set_major_formatter(LogFormatter())
        axis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(1, 0.4)))


# The common frame of all pages: one self-contained file, style, and both colour schemes.

#: Control characters but tabs and line breaks, and marks of the direction of text.
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
#: What a template shows, by name.
View = SimpleNamespace


def render_page(
    package: str,
    title: str,
    filters: Mapping[str, Callable[..., Any]] = {},
    *,
    template: str = "page.html",
    **values: Any,
) -> str:
    """Renders a template of `package`, which extends `shell.html`, with `values`.

    Characters that command a terminal, or turn what follows, are shown instead of obeyed.
    """
    environment = _environment(package)
    environment.filters |= filters
    css = files("analysis.report").joinpath("page.css").read_text(encoding="utf-8")
    page = environment.get_template(template).render(
        title=title, css=Markup(css), light=css_variables(0), dark=css_variables(1), **values
    )
    return _CONTROLS.sub(lambda match: one_line(match[0]), page)


@cache
def _environment(package: str) -> jinja2.Environment:
    """Templates of `package`, each compiled once."""
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(name, "") for name in (package, "analysis.report")]
        ),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
