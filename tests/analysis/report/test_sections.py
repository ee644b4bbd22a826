"""A new section of the report is a module with its template; no other file is touched."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.analysis.synthetic import STREAM, samples, write_run

ROOT = Path(__file__).parents[3]
MODULE = '''"""Numbers of runs, as a section."""

from analysis.report.sections import RunSection

SECTIONS = [
    RunSection(
        place=45,
        title="Numbers of runs",
        anchor="numbers",
        template="numbers.html",
        view=lambda run, name: run.samples.height or None,
        files=lambda runs: {"numbers.json": {"runs": [run.samples.height for run in runs]}},
    )
]
'''
TEMPLATE = '<h3 id="{{ section.id }}">{{ view }} runs of {{ run.data.header.run }}</h3>\n'


def test_a_section_is_a_module_and_a_template(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    for package in ("analysis", "nimc"):
        shutil.copytree(ROOT / package, checkout / package)
    (checkout / "analysis/subjects/numbers.py").write_text(MODULE)
    (checkout / "analysis/subjects/numbers.html").write_text(TEMPLATE)
    run = write_run(tmp_path / "run", samples(STREAM, pairs=6))
    subprocess.run(
        [
            *(sys.executable, "-c"),
            "import sys; from pathlib import Path; from analysis.report.make import make_reports;"
            " make_reports([Path(sys.argv[1])])",
            str(run),
        ],
        env={**os.environ, "PYTHONPATH": str(checkout)},
        cwd=tmp_path,
        check=True,
    )
    page = (run / "report/report.html").read_text()
    assert '<li><a href="#r0numbers">Numbers of runs</a></li>' in page
    # A warm-up, and six pairs of four runs.
    assert re.search(r'<h3 id="r0numbers">25 runs of [^<]+</h3>', page)
    assert json.loads((run / "report/numbers.json").read_text()) == {"schema": 1, "runs": [25]}
    assert page.index("All 25 runs") > page.index('id="r0numbers"')
