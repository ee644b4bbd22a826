"""The claims of a run of the campaign `qualify`: on its page, and in a file beside it."""

import json

from markupsafe import Markup

from tests.analysis.subjects.made_qualification import Fault, made_run
from tests.analysis.synthetic import HOST

#: The origin's clock is an hour ahead.
OFF = Fault(offsets_s={HOST: 0.0, "origin-0": 3600.0})


def test_a_refused_claim_is_on_the_page_with_its_remedy(tmp_path, command, monkeypatch):
    monkeypatch.setattr("analysis.report.plots.themed_svg", lambda *_, **__: Markup())
    run = made_run(tmp_path / "run", OFF)
    command("report", run)
    page = (run / "report/report.html").read_text()
    assert "The machine is not qualified." in page
    assert "start chronyd or ntpd there" in page
    rows = json.loads((run / "report/qualification.json").read_text())["qualification"]
    words = {row["claim"]: row["word"] for row in rows}
    assert (words["clocks"], words["repeats"]) == ("refused", "allowed")
