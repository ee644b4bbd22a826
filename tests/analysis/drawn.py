"""What a page, a section or a figure shows."""

import re
from collections import Counter

from analysis.questions.presentation import section
from analysis.questions.question import Question
from analysis.report.data import RunData
from analysis.report.plots import View


def shown(question: Question, run: RunData) -> View:
    """Return what the page shows of the answer; there must be one."""
    view = section(question, "before_cases", 1).make_view(run)
    assert isinstance(view, View)
    return view


def bars(svg: str) -> Counter[str]:
    """The number of intervals, by the name of their colour."""
    return Counter(re.findall(r"stroke: var\(--([\w-]+)\); stroke-width: 3[;\"]", svg))


def texts(svg: str) -> list[str]:
    """The texts of a figure."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def plain(html: str) -> str:
    """The text of HTML."""
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())
