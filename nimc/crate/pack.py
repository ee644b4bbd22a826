"""Packs a run as a crate: one zip with everything that it takes to cite, verify and repeat it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from analysis.report.data import load_run
from analysis.report.page import make_reports
from nimc.crate.metadata import About, descriptions
from nimc.crate.zipped import LARGEST_B, MANIFEST, SIGNATURE, Files, manifest, sign, zipped
from nimc.run.verify import verify
from records import chain
from records.checkout import git
from records.errors import InputError
from records.files import read_regular, replace
from records.run import load_header
from records.run_folder import distrust_run

#: Files of a run's folder that go into its crate. Not: output of writers and of ReFrame.
_OF_A_RUN = (
    "run.json",
    "checks/*.py",  # of earlier versions
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
    are not written as those of a run are (`records.files`), which takes a flush for each.
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


def inside(files: Files, folder: str) -> dict[str, bytes]:
    """The files below a folder of the crate, by their names in it."""
    start = f"{folder}/"
    return {name.removeprefix(start): files[name] for name in files if name.startswith(start)}


# Packed.


@dataclass(frozen=True)
class Packed:
    """A crate that was written."""

    crate: str
    size_b: int
    files: int
    #: SHA-256 of the manifest, which covers all other files.
    manifest_sha256: str
    #: Head of the chain in the crate; None if its samples are in no chain.
    head: str | None


def pack(
    run: Path,
    crate: Path,
    *,
    license: str,
    authors: Sequence[str],
    key: Path | None = None,
) -> Packed:
    """Write the crate of a run; the same run gives the same bytes.

    Raises InputError for a run that is another user's or does not verify.
    """
    if reason := distrust_run(run):
        raise InputError(f"{run}: {reason}; allowed: your own run")
    if not (found := verify(run)).is_sound:
        raise InputError(*(each.text for each in found.findings if each.kind != "unproven"))
    loaded, files = load_run(run), run_files(run)
    header, head = loaded.header, loaded.integrity.head
    with TemporaryDirectory() as folder:
        report = report_files(written(files, Path(folder)))
    folders = {RUN: files, REPORT: report, "locks": python_locks(header.commit)}
    made = {f"{at}/{name}": of[name] for at, of in folders.items() for name in of}
    made["campaign.yaml"] = header.campaign_text.encode()
    made["machine.json"] = f"{json.dumps(header.facts.get('site'), indent=1)}\n".encode()
    made |= descriptions(header, About(license, authors, head, loaded.earlier()), made)
    made[MANIFEST] = manifest(made)
    if key:
        made[SIGNATURE] = sign(made[MANIFEST], key)
    raw = zipped(made)
    replace(crate, raw)
    return Packed(str(crate), len(raw), len(made), chain.digest(made[MANIFEST]), head)
