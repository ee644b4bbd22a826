"""Returns what a page, a section or a figure shows."""

import re
from collections import Counter

from analysis.questions.presentation import section
from analysis.questions.question import Question
from analysis.report.data import RunData
from analysis.report.plots import View


def shown(question: Question, run: RunData) -> View:
    """Return the view of a question's answer on the page; there must be an answer."""
    view = section(question, "before_cases", 1).make_view(run)
    assert isinstance(view, View)
    return view


def bars(svg: str) -> Counter[str]:
    """Return name of a colour -> number of intervals with this colour."""
    return Counter(re.findall(r"stroke: var\(--([\w-]+)\); stroke-width: 3[;\"]", svg))


def texts(svg: str) -> list[str]:
    """Return the texts of a figure."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def plain(html: str) -> str:
    """Return the text of HTML, without tags."""
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())
