"""Packs a run as a crate: one zip with everything that it takes to cite, verify and repeat it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from analysis.report.page import make_reports
from nimc.crate.metadata import CAMPAIGN, REPORT, RUN, About, descriptions
from nimc.crate.zipped import LARGEST_B, MANIFEST, SIGNATURE, Files, manifest, sign, zipped
from nimc.run.verify import verify
from records import chain
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
_REPORTED = ("report.html", "results.json")


def run_files(run: Path) -> dict[str, bytes]:
    """The files of a run's folder that are packed, by their names in it.

    Raises InputError for links and for what is no regular file.
    """
    paths = sorted({path for pattern in _OF_A_RUN for path in run.glob(pattern)})
    return {str(path.relative_to(run)): read_regular(path, LARGEST_B) for path in paths}


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
    return {name.removeprefix(folder): files[name] for name in files if name.startswith(folder)}


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
    if not (verified := verify(run)).is_sound:
        faults = (finding for finding in verified.findings if finding.kind != "unproven")
        raise InputError(*(fault.text for fault in faults))
    header, files = load_header(run), run_files(run)
    with TemporaryDirectory() as folder:
        report = report_files(written(files, Path(folder)))
    content = {
        **{f"{RUN}{name}": text for name, text in files.items()},
        **{f"{REPORT}{name}": text for name, text in report.items()},
        CAMPAIGN: header.campaign_text.encode(),
        **descriptions(header, About(license, authors, verified.head)),
    }
    content[MANIFEST] = manifest(content)
    if key:
        content[SIGNATURE] = sign(content[MANIFEST], key)
    raw = zipped(content)
    replace(crate, raw)
    digest = chain.digest(content[MANIFEST])
    return Packed(str(crate), len(raw), len(content), digest, verified.head)
