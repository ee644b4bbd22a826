"""The sample run, which README, the tutorial and the docs site show: its files and its picture.

`python -m scripts.sample_run` draws docs/report.png from docs/sample-run/. If the folder of a
finished run is given, it first copies this run to docs/sample-run/. The copy has no logs, and the
path of the checkout is replaced by another path.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from analysis.report.data import load_run
from analysis.report.page import render
from records.calls import load_call
from records.chain import file_digest
from records.files import replace_text
from scripts.browser import CHROMIUM, LIGHT
from scripts.rechain import rechain

ROOT = Path(__file__).parents[1]
SAMPLE_RUN_PARENT = ROOT / "docs/sample-run"
PICTURE = ROOT / "docs/report.png"
#: Folders of a run that its report needs.
_NEEDED_FOLDERS = ("samples", "counters", "provenance")
#: Path that replaces the path of the checkout.
_CHECKOUT = "/home/user/nimc"
#: Width and height of the picture, pixels. The picture shows the page down to the end of its
#: summary.
_PICTURE_SIZE = 1200, 690


def sample_run() -> Path:
    """Return the folder of the sample run; there is only one."""
    (run,) = (path for path in SAMPLE_RUN_PARENT.iterdir() if path.is_dir())
    return run


def replace_sample_run(run: Path) -> None:
    """Replace the sample run by a finished run.

    The records of the copy are chained again, since paths in them change.
    """
    checkout = load_call(run, "").folder
    assert checkout, "the run does not say where its checkout is"
    shutil.rmtree(SAMPLE_RUN_PARENT, ignore_errors=True)
    copy = SAMPLE_RUN_PARENT / run.name
    copy.mkdir(parents=True)
    shutil.copy(run / "run.json", copy)
    for name in _NEEDED_FOLDERS:
        shutil.copytree(run / name, copy / name)
    new_digests = {
        path.stem: _replace_checkout(path, str(checkout))
        for path in (copy / "provenance").iterdir()
    }
    for path in (copy / "samples").iterdir():
        samples_text = path.read_text()
        for old_digest, new_digest in new_digests.items():
            samples_text = samples_text.replace(old_digest, new_digest)
        replace_text(path, samples_text)
    rechain(copy)


def _replace_checkout(record: Path, checkout: str) -> str:
    """Replace the path of the checkout in a provenance record.

    Returns the new digest of the record, which is also the new name of its file.
    """
    replace_text(record, record.read_text().replace(checkout, _CHECKOUT))
    digest = file_digest(record)
    record.rename(record.with_stem(digest))
    return digest


def draw_picture() -> None:
    """Draw the top of the sample run's report, as a browser shows it."""
    assert CHROMIUM, "chromium is not installed"
    width, height = _PICTURE_SIZE
    with TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        replace_text(page, render([load_run(sample_run())]))
        size = f"--window-size={width},{height}"
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", size, LIGHT]
        options += [f"--user-data-dir={folder}/profile", f"--screenshot={PICTURE}", page.as_uri()]
        subprocess.run(
            [CHROMIUM, *options], check=True, capture_output=True, timeout=120, cwd=folder
        )


if __name__ == "__main__":
    for name in sys.argv[1:]:
        replace_sample_run(Path(name).resolve())  # `latest` is a link
    draw_picture()
