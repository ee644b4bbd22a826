"""What goes into a crate: a run's folder, its report, locks, and what describes them."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from analysis.report.page import make_reports
from nimc.base.checkout import git
from nimc.base.files import read_regular
from nimc.crate.zipped import LARGEST_B, Files
from nimc.records.run import RunHeader, load_header

#: Files of a run's folder that go into its crate. Not: output of writers and of ReFrame.
_OF_A_RUN = (
    "run.json",
    "checks/*.py",
    "samples/*.jsonl",
    "counters/*.jsonl",
    "provenance/*.json",
    "logs/*/*/block.json",
    "logs/*/*/job.json",
    "logs/*/*/alone.json",
    "logs/*/*/length.json",
    "logs/*/*/*.out",
    "logs/*/*/*.gz",
    "logs/*/*/reframe/**/spack.lock",
)
#: Folders of the crate for the run and for its report.
RUN, REPORT = "run", "report"
_REPORTED = ("report.html", "results.json")


def run_files(run: Path) -> dict[str, bytes]:
    """The files of a run's folder that are packed, by their names in it.

    Raises InputError for links and for what is no regular file.
    """
    paths = sorted({path for pattern in _OF_A_RUN for path in run.glob(pattern)})
    return {str(path.relative_to(run)): read_regular(path, LARGEST_B) for path in paths}


def python_locks(commit: str | None) -> dict[str, bytes]:
    """The locks of the Python packages at a commit; none if this checkout does not have it."""
    at = (commit or "").removesuffix("+")
    if not at.isalnum():
        return {}
    names = git("ls-tree", "--name-only", at, "requirements/").stdout.split()
    texts = {Path(name).name: git("show", f"{at}:{name}") for name in names}
    return {name: text.stdout.encode() for name, text in texts.items() if text.ok}


def written(files: Files, folder: Path) -> Path:
    """Write the files of a run below `folder`, in a new folder of the run's own name.

    `folder` is a temporary one that nobody else can reach, and need not outlive a crash: the files
    are not written as those of a run are (`nimc.base.files`), which takes a flush for each.
    """
    for name, content in files.items():
        path = folder / "run" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return (folder / "run").rename(folder / load_header(folder / "run").run)


def report_files(run: Path) -> dict[str, bytes]:
    """Page and results of the run in a folder of its own (`written`), on which alone they depend.

    Raises InputError if the run has integrity faults.
    """
    with TemporaryDirectory() as folder:
        make_reports([run], Path(folder))
        return {name: Path(folder, name).read_bytes() for name in _REPORTED}


def header_files(header: RunHeader) -> dict[str, bytes]:
    """Campaign and machine as files of their own."""
    site = json.dumps(header.facts.get("site"), indent=1)
    return {"campaign.yaml": header.campaign_text.encode(), "machine.json": f"{site}\n".encode()}


def inside(files: Files, folder: str) -> dict[str, bytes]:
    """The files below a folder of the crate, by their names in it."""
    start = f"{folder}/"
    return {name.removeprefix(start): files[name] for name in files if name.startswith(start)}


def below(folder: str, files: Files) -> dict[str, bytes]:
    """The files as they are named below a folder of the crate."""
    return {f"{folder}/{name}": content for name, content in files.items()}
