"""Packs a run as a crate: one zip to cite, verify and repeat it; opens and verifies crates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from analysis.report.page import make_reports
from nimc.crate.metadata import CAMPAIGN, REPORT, RUN, About, descriptions
from nimc.crate.zipped import (
    LARGEST_B,
    MANIFEST,
    SIGNATURE,
    Files,
    manifest,
    manifest_faults,
    sign,
    signer_of,
    unzipped,
    zipped,
)
from nimc.run.verify import Finding, Kind, Verified, verify
from records import chain, files
from records.errors import InputError, NimcError
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
    return {str(path.relative_to(run)): files.read_regular(path, LARGEST_B) for path in paths}


def written(content: Files, folder: Path) -> Path:
    """Write the files of a run below `folder`, in a new folder of the run's own name.

    `folder` is a temporary one that nobody else can reach, and need not outlive a crash: the files
    are not written as those of a run are (`records.files`), which takes a flush for each.
    """
    for name, text in content.items():
        path = folder / "run" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    return (folder / "run").rename(folder / load_header(folder / "run").run)


def report_files(run: Path) -> dict[str, bytes]:
    """Page and results of the run in a folder of its own (`written`), on which alone they depend.

    Raises InputError if the run has integrity faults.
    """
    with TemporaryDirectory() as folder:
        make_reports([run], Path(folder))
        return {name: Path(folder, name).read_bytes() for name in _REPORTED}


def inside(content: Files, folder: str) -> dict[str, bytes]:
    """The files below a folder of the crate, by their names in it."""
    return {
        name.removeprefix(folder): text for name, text in content.items() if name.startswith(folder)
    }


def pack(run: Path, crate: Path, about: About, key: Path | None = None) -> dict[str, Any]:
    """Write the crate of a run, signed if there is a key; the same run gives the same bytes.

    Returns its path, size, number of files, the SHA-256 of the manifest, which covers all other
    files, and the head of the chain in it; None if its samples are in no chain. Raises InputError
    for a run that is another user's or does not verify.
    """
    if reason := distrust_run(run):
        raise InputError(f"{run}: {reason}; allowed: your own run")
    verified = verify(run)
    if not verified.is_sound:
        raise InputError(*(of.text for of in verified.findings if of.kind != "unproven"))
    header, of_run = load_header(run), run_files(run)
    with TemporaryDirectory() as folder:
        report = report_files(written(of_run, Path(folder)))
    content = {
        **{f"{RUN}{name}": text for name, text in of_run.items()},
        **{f"{REPORT}{name}": text for name, text in report.items()},
        CAMPAIGN: header.campaign_text.encode(),
        **descriptions(header, about),
    }
    content[MANIFEST] = manifest(content)
    if key:
        content[SIGNATURE] = sign(content[MANIFEST], key)
    raw = zipped(content)
    files.replace(crate, raw)
    return {
        "crate": str(crate),
        "size_b": len(raw),
        "files": len(content),
        "manifest_sha256": chain.digest(content[MANIFEST]),
        "head": verified.head,
    }


# Opened: no byte of a crate was changed since it was packed, and who signed it.


@dataclass(frozen=True)
class Opened:
    """A crate whose files are as its manifest lists them; its run has still to be verified."""

    files: Files
    #: The run in it, unpacked; and how a text that names its files names their places in the crate.
    run: Path
    in_crate: Callable[[str], str]


@contextmanager
def opened(crate: Path) -> Iterator[Opened]:
    """A crate, checked, its run unpacked in a folder that goes.

    Raises InputError with a line for each fault, by its place in the crate; nothing is unpacked
    before all bytes are checked.
    """
    raw = files.read_regular(crate, LARGEST_B)
    try:
        content = unzipped(raw)
        if faults := manifest_faults(content):
            raise InputError(*faults)
    except InputError as error:
        raise InputError(*(f"{crate}: {fault}" for fault in error.args)) from None
    with TemporaryDirectory() as folder:
        unpacked = re.compile(rf"{re.escape(folder)}/[^/:]+")  # all there is in it is the run

        def in_crate(text: str) -> str:
            return unpacked.sub(lambda _: f"{crate}:run", text)

        try:
            run = written(inside(content, RUN), Path(folder))
            if content.get(CAMPAIGN) != load_header(run).campaign_text.encode():
                # It is what people read before they repeat it.
                raise InputError(f"{crate}: {CAMPAIGN}: is not what run/run.json has")
            yield Opened(content, run, in_crate)
        except NimcError as error:
            error.args = tuple(in_crate(str(line)) for line in error.args)
            raise


def verify_crate(crate: Path, head: str | None = None, allowed: Path | None = None) -> Verified:
    """Verify a crate, and the run in it as `nimc.run.verify` does; `allowed`: file of signers."""
    try:
        with opened(crate) as unpacked:
            of = verify(unpacked.run, head)
    except InputError as error:
        broken = [Finding("broken", line) for line in str(error).splitlines()]
        return Verified(crate, findings=broken)
    of.run = crate
    of.findings = [
        Finding(finding.kind, unpacked.in_crate(finding.text)) for finding in of.findings
    ]
    of.remarks = [f"manifest {chain.digest(unpacked.files[MANIFEST])}"]
    signature = unpacked.files.get(SIGNATURE)
    if signature is None:
        why = "not signed"
    elif allowed is None:
        why = "signed; --allowed-signers says by whom"
    elif signer := signer_of(unpacked.files[MANIFEST], signature, allowed):
        of.remarks.append(f"signed by {signer}")
        return of
    else:
        why = f"signed by nobody in {allowed}"
    kind: Kind = "contradicted" if allowed else "unproven"
    of.findings.append(Finding(kind, f"{crate}: who made it: {why}"))
    return of
