"""Packs runs as crates; opens and verifies crates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from analysis.report.page import make_reports
from nimc.crate import archive
from nimc.crate.archive import LARGEST_B, MANIFEST, SIGNATURE, Files
from nimc.crate.metadata import CAMPAIGN, REPORT, RUN, descriptions
from nimc.run.folder import locked
from nimc.run.verify import IntegrityFinding, Verified, verify
from records import chain, files
from records.errors import InputError, NimcError
from records.run import load_header
from records.run_folder import reason_to_distrust_run

#: Files of a run's folder that go into its crate. Output of writers and of ReFrame does not.
_RUN_PATTERNS = (
    "run.json",
    "samples/*.jsonl",
    "counters/*.jsonl",
    "provenance/*.json",
    *(f"logs/*/*/{name}.json" for name in ("block", "job", "alone", "length")),
    "logs/*/*/*.out",
    "logs/*/*/*.gz",
    "logs/*/*/reframe/**/spack.lock",
)
_REPORT_FILES = ("report.html", "results.json")


def run_files(run: Path) -> dict[str, bytes]:
    """Return the files of a run's folder that are packed, by their names in the crate.

    Raises InputError for links, and for other files that are not regular.
    """
    paths = (path for pattern in _RUN_PATTERNS for path in run.glob(pattern))
    return {f"{RUN}{path.relative_to(run)}": files.read_regular(path, LARGEST_B) for path in paths}


def report_files(run: Path) -> dict[str, bytes]:
    """Make page and results of an unpacked run, in its folder.

    They depend on nothing but the run. Raises InputError if the run has integrity faults.
    """
    folder = run / "report"
    make_reports([run], folder, shell=None)
    return {name: (folder / name).read_bytes() for name in _REPORT_FILES}


def _unpack_run(content: Files, folder: Path) -> Path:
    """Write the run of a crate to a new folder in `folder`, with the name of the run.

    Files are not flushed as by `records.files`: `folder` is temporary and need not outlive a crash.
    """
    for name, data in content.items():
        if name.startswith(RUN):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return (folder / RUN).rename(folder / load_header(folder / RUN).run)


def pack(
    run: Path, crate: Path, license_: str, authors: Sequence[str], key: Path | None = None
) -> dict[str, Any]:
    """Write the crate of a run, signed if there is a key; the same run gives the same bytes.

    Returns facts of the crate: path, size, number of files, SHA-256 of the manifest, head of the
    chain (None if the samples are in no chain), and whether the run is finished. Raises InputError
    for a run that belongs to another user, is being measured, or does not verify.
    """
    if reason := reason_to_distrust_run(run):
        raise InputError(f"{run}: {reason}; allowed: your own run")
    finished = load_header(run).finished_s is not None
    # Unless the run is locked, samples may be added while it is read. The crate might then lack
    # their counters, or have samples that the printed head does not cover.
    with nullcontext() if finished else locked(run, "wait for it, or end it"):
        verified = verify(run)
        if not verified.is_sound:
            raise InputError(
                *(finding.text for finding in verified.findings if finding.kind != "unproven")
            )
        header, content = load_header(run), run_files(run)
    # The analysis needs no outputs of applications, which are most of the files.
    analysed = {name: data for name, data in content.items() if not name.endswith((".out", ".gz"))}
    with TemporaryDirectory() as folder:
        report = report_files(_unpack_run(analysed, Path(folder)))
    content |= {f"{REPORT}{name}": data for name, data in report.items()}
    content |= {CAMPAIGN: header.campaign_text.encode(), **descriptions(header, license_, authors)}
    content[MANIFEST] = archive.manifest(content)
    if key:
        content[SIGNATURE] = archive.sign(content[MANIFEST], key)
    raw = archive.make_zip(content)
    files.replace_bytes(crate, raw)
    return {
        "crate": str(crate),
        "size_b": len(raw),
        "files": len(content),
        "manifest_sha256": chain.digest(content[MANIFEST]),
        "head": verified.head,
        "finished": finished,
    }


# Crates that were packed: their bytes are checked against the manifest, then the signature.


@contextmanager
def open_crate(crate: Path) -> Iterator[tuple[Files, Path]]:
    """Yield the files of a crate, checked against its manifest, and the folder of its run.

    The folder is temporary, and the run is not verified yet. Raises InputError with a line for each
    fault, which names the file in the crate. Nothing is unpacked before all bytes are checked.
    """
    raw = files.read_regular(crate, LARGEST_B)
    try:
        content = archive.read_zip(raw)
    except InputError as error:
        raise InputError(f"{crate}: {error}") from None
    with TemporaryDirectory() as folder:
        try:
            run = _unpack_run(content, Path(folder))
            if content.get(CAMPAIGN) != load_header(run).campaign_text.encode():
                # People read this file before they repeat the run, which uses the header's text.
                raise InputError(f"{crate}: {CAMPAIGN}: is not what run/run.json has")
            yield content, run
        except NimcError as error:
            error.args = tuple(_in_crate(str(line), Path(folder), crate) for line in error.args)
            raise


def _in_crate(text: str, folder: Path, crate: Path) -> str:
    """Replace paths of files of the unpacked run with their paths in the crate."""
    return re.sub(rf"{re.escape(str(folder))}/[^/:]+", lambda _: f"{crate}:run", text)


def verify_crate(crate: Path, head: str | None = None, signers: Path | None = None) -> Verified:
    """Verify a crate and its run; `signers`: the file of allowed signers."""
    try:
        with open_crate(crate) as (content, run):
            verified = verify(run, head)
    except InputError as error:
        broken = [IntegrityFinding("broken", line) for line in str(error).splitlines()]
        return Verified(run=crate, findings=broken)
    verified.run = crate
    verified.findings = [
        IntegrityFinding(finding.kind, _in_crate(finding.text, run.parent, crate))
        for finding in verified.findings
    ]
    verified.remarks = [f"manifest {chain.digest(content[MANIFEST])}"]
    signature = content.get(SIGNATURE)
    if signature is None:
        fault = "not signed"
    elif signers is None:
        fault = "signed; --allowed-signers says by whom"
    elif signer := archive.signer_of(content[MANIFEST], signature, signers):
        verified.remarks.append(f"signed by {signer}")
        return verified
    else:
        fault = f"signed by nobody in {signers}"
    text = f"{crate}: who made it: {fault}"
    verified.findings.append(IntegrityFinding("contradicted" if signers else "unproven", text))
    return verified
