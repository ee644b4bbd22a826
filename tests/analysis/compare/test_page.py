import re
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.compare.page import REFERENCE_COLOUR, THIS_COLOUR, render
from analysis.compare.sides import ComparedSides, compare_sides
from tests.analysis.compare.nights import night, nights
from tests.analysis.drawn import bars, plain
from tests.analysis.report.html import Page
from tests.analysis.synthetic import LAMMPS, STREAM


def text_of(page: str) -> str:
    Page(page)
    return plain(page)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> ComparedSides:
    folder = tmp_path_factory.mktemp("several")
    return compare_sides(
        nights(folder, "before", 1.35, 1.36, 1.34), nights(folder, "after", 1.5, 1.51)
    )


def test_every_night_and_every_ratio_is_drawn_and_nothing_is_loaded(several: ComparedSides) -> None:
    page = render(several)
    text = text_of(page)
    assert "The RDMA on this page is emulated." in text
    assert "Not known on either side: CPU model" in text
    assert text.count(several.summary) == 1
    assert text.index(several.summary) < text.index("What differs")
    groups = re.findall(r'<g id="slowdowns-nights-[^"]*">(.*?)</g>\s*</g>', page, re.DOTALL)
    assert [len(re.findall(r"<use ", group)) for group in groups] == [3, 2]
    # The interval of each side and that of every ratio are drawn as well.
    slowdowns = sum(row.metric == "slowdown" for row in several.rows)
    assert bars(page) == {REFERENCE_COLOUR: slowdowns, THIS_COLOUR: slowdowns + len(several.rows)}
    assert not re.search(r'(src|href)="(?!#|data:)|@import', page)


def test_two_machines_with_one_night_each(tmp_path: Path) -> None:
    node = {"kernel": "5.14", "cpu_model": "<b>EPYC</b>"}
    old = night(tmp_path / "a", STREAM, LAMMPS, machine="<i>old", node=node)
    new = night(
        tmp_path / "b",
        replace(STREAM, transport="tcp", effects={**STREAM.effects, "on": 1.5}),
        LAMMPS,
        machine="new",
        node={**node, "kernel": "6.6"},
        seed=2,
    )
    page = render(compare_sides([old], [new]))
    text = text_of(page)
    assert "<i>old" not in page
    assert "<b>EPYC" not in page
    assert "kernel 5.14 6.6" in text
    # Differences between the machines come before any figure.
    writes = "stream on: shared memory -&gt; tcp; ucx -&gt; perftest: not comparable"
    assert text.index("different machines: &lt;i&gt;old -&gt; new") < text.index(writes)
    assert text.index(writes) < text.index("Both sides")
    assert "two nights: no difference shown (" in text
    shown = text[: text.index("How to read this")]
    assert "worse" not in shown.replace("above 1 is worse", "")
    assert "regression" not in page


def test_sides_without_a_case_in_common(tmp_path: Path) -> None:
    stream, lammps = night(tmp_path / "a", STREAM), night(tmp_path / "b", LAMMPS)
    text = text_of(render(compare_sides([stream], [lammps])))
    assert "No case in common." in text
    assert "two nights" not in text[: text.index("How to read this")]
