"""Tests of the docs site: features of its pages, and the sample report that only the site has."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from records.checkout import ROOT

pytestmark = pytest.mark.slow
ADDRESS = "https://nimc.example/nimc"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NIMC_URL": ADDRESS, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
        timeout=600,
    )
    return folder


def test_a_page_has_a_dark_scheme_a_copy_button_and_the_repository(site: Path) -> None:
    page = (site / "campaigns.html").read_text()
    assert set(re.findall(r'data-md-color-scheme="(\w+)"', page)) == {"default", "slate"}
    assert '"content.code.copy"' in page
    assert f'href="{ADDRESS}"' in page
    assert 'href="site.css"' in page


def test_the_sample_report_is_linked_and_leads_back(site: Path) -> None:
    for name in ("index.html", "read-a-report.html"):
        assert '<a href="sample-report.html"><img' in (site / name).read_text()
    assert '<a href="sample-report.html"><code>build/site/' in (site / "index.html").read_text()
    sample = (site / "sample-report.html").read_text()
    assert re.search(r'<header>\s*<p[^>]*><a href="read-a-report.html">', sample)
    assert "The RDMA on this page is emulated." in sample
    (run,) = (ROOT / "docs/sample-run").iterdir()
    assert f"run {run.name}" in sample
    assert not (site / "sample-run").exists()
