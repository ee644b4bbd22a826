"""The common frame of all pages: one self-contained file, style, and both colour schemes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

import jinja2
from markupsafe import Markup

from analysis.report.plots import css_variables

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
    """Renders a template of `package`, which extends `shell.html`, with `values`."""
    environment = _environment(package)
    environment.filters |= filters
    css = files("analysis.report").joinpath("page.css").read_text(encoding="utf-8")
    return environment.get_template(template).render(
        title=title, css=Markup(css), light=css_variables(0), dark=css_variables(1), **values
    )


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
