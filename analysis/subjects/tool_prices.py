"""The price of a tool: time with it / time without. It shows whether the tool changed the runs."""

from __future__ import annotations

import polars as pl

from analysis.questions.estimators import stored_estimate
from analysis.questions.presentation import section
from analysis.questions.question import Limit, Question, columns_of, shared
from analysis.report.data import RunData
from analysis.subjects.paired_roles import IS_TOOL_COUNT


def _tool_prices(run: RunData) -> pl.DataFrame:
    """A row for each case and each tool that counted in this case.

    The price is null if there are fewer than six pairs with the tool and the level `none`.
    """
    prices = {
        (contrast.case, str(contrast.level)): contrast
        for contrast in run.contrasts
        if (contrast.factor, contrast.kind) == ("tool", "price") and not contrast.at
    }
    counting_tools = run.counters.filter(IS_TOOL_COUNT).select(
        pl.col("case", "tool").cast(pl.String)
    )
    rows = []
    for case, tool in counting_tools.unique(maintain_order=True).rows():
        price = prices.get((case, tool))
        rows.append(
            {
                "case": case,
                "tool": tool,
                **columns_of("ratio", price.ratio if price else None),
                "n": price.pairs if price else 0,
                "margin": run.header.margin,
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


_SLOWEST_UNCHANGED = 1 + pl.col("margin")
PRICES = Question(
    name="tool_prices",
    title="Price of the tools",
    text="Time with the tool / time without, both without traffic, within pairs with the level"
    " 'none'. If the price lies beyond the margin of 'no effect', the counts are of runs that the"
    " tool changed.",
    rows=_tool_prices,
    by=("case", "tool"),
    estimates={"ratio": stored_estimate("ratio")},
    facts=shared("n", "margin"),
    limits=(
        Limit(word="changed by the tool", condition=pl.col("ratio_low") > _SLOWEST_UNCHANGED),
        Limit(word="changed by the tool", condition=pl.col("ratio_high") < 1 / _SLOWEST_UNCHANGED),
        Limit(
            word="not shown to be beyond the margin", condition=pl.col("ratio_low").is_not_null()
        ),
    ),
    columns=("n", "word"),
    headings={"ratio": "price", "word": "counts"},
    plot=None,
)
SECTIONS = [section(PRICES, "before_cases", 84)]
