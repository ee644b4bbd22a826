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
from nimc.crate.archive import MANIFEST, MAX_CRATE_B, SIGNATURE, Files
from nimc.crate.metadata import REPORT_FOLDER, RUN_FOLDER, descriptions
from nimc.run.folder import locked
from nimc.run.verify import FindingKind, IntegrityFinding, Verification, verify
from records import chain, files
from records.calls import PACKED_CAMPAIGN
from records.errors import InputError, NimcError
from records.run import load_header
from records.run_folder import reason_to_distrust_run

#: Files in a run's folder that go into its crate. The output of writers and of ReFrame does not.
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
    """Return name in the crate -> content of each file of a run's folder that is packed.

    Raises InputError for a file that is not regular, such as a link.
    """
    paths = (path for pattern in _RUN_PATTERNS for path in run.glob(pattern))
    return {
        f"{RUN_FOLDER}{path.relative_to(run)}": files.read_regular(path, MAX_CRATE_B)
        for path in paths
    }


def report_files(run: Path) -> dict[str, bytes]:
    """Make the page and the results of an unpacked run in its folder, and return them.

    They depend on nothing but the run. Raises InputError if the run has integrity faults.
    """
    folder = run / "report"
    make_reports([run], folder, shell=None)
    return {name: (folder / name).read_bytes() for name in _REPORT_FILES}


def _unpack_run(crate_files: Files, folder: Path) -> Path:
    """Write the run of a crate to a new folder in `folder`, with the name of the run.

    No file is flushed to disk, since `folder` is temporary and need not outlive a crash.
    """
    for name, content in crate_files.items():
        if name.startswith(RUN_FOLDER):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return (folder / RUN_FOLDER).rename(folder / load_header(folder / RUN_FOLDER).run)


def pack(
    run: Path, crate: Path, license_: str, authors: Sequence[str], key: Path | None = None
) -> dict[str, Any]:
    """Write the crate of a run, signed if there is a key; the same run gives the same bytes.

    Returns facts about the crate: path, size, number of files, SHA-256 of the manifest, head of the
    chain (None if the samples are in no chain), and whether the run is finished. Raises InputError
    for a run that belongs to another user, is being measured, or does not verify.
    """
    if reason := reason_to_distrust_run(run):
        raise InputError(f"{run}: {reason}; allowed: your own run")
    finished = load_header(run).finished_s is not None
    # Unless the run is locked, samples may be added while it is read. The crate might then lack
    # their counters, or have samples that the printed head does not cover.
    with nullcontext() if finished else locked(run, "wait for it, or end it"):
        verification = verify(run)
        if not verification.is_sound:
            raise InputError(
                *(finding.text for finding in verification.findings if finding.kind != "unproven")
            )
        header, crate_files = load_header(run), run_files(run)
    # The analysis does not need the outputs of applications, which are most of the files.
    analysed_files = {
        name: content for name, content in crate_files.items() if not name.endswith((".out", ".gz"))
    }
    with TemporaryDirectory() as folder:
        report = report_files(_unpack_run(analysed_files, Path(folder)))
    crate_files |= {f"{REPORT_FOLDER}{name}": content for name, content in report.items()}
    crate_files[PACKED_CAMPAIGN] = header.campaign_text.encode()
    crate_files |= descriptions(header, license_, authors)
    crate_files[MANIFEST] = archive.manifest(crate_files)
    if key:
        crate_files[SIGNATURE] = archive.sign(crate_files[MANIFEST], key)
    zip_bytes = archive.make_zip(crate_files)
    files.replace_bytes(crate, zip_bytes)
    return {
        "crate": str(crate),
        "size_b": len(zip_bytes),
        "files": len(crate_files),
        "manifest_sha256": chain.digest(crate_files[MANIFEST]),
        "head": verification.head,
        "finished": finished,
    }


# Crates that were packed. First their files are checked against the manifest, then the signature.


@contextmanager
def open_crate(crate: Path) -> Iterator[tuple[Files, Path]]:
    """Yield the files of a crate, checked against its manifest, and the folder of its run.

    The folder is temporary, and the run is not verified yet. Nothing is unpacked before all files
    are checked. Raises InputError with a line for each fault, which names the file in the crate.
    """
    zip_bytes = files.read_regular(crate, MAX_CRATE_B)
    try:
        crate_files = archive.read_zip(zip_bytes)
    except InputError as error:
        raise InputError(f"{crate}: {error}") from None
    with TemporaryDirectory() as folder:
        try:
            run = _unpack_run(crate_files, Path(folder))
            if crate_files.get(PACKED_CAMPAIGN) != load_header(run).campaign_text.encode():
                # People read this file before they repeat the run; the repetition uses the header.
                raise InputError(
                    f"{crate}: {PACKED_CAMPAIGN}: differs from the campaign in run/run.json"
                )
            yield crate_files, run
        except NimcError as error:
            error.args = tuple(_in_crate(str(arg), Path(folder), crate) for arg in error.args)
            raise


def _in_crate(text: str, folder: Path, crate: Path) -> str:
    """Replace paths of files of the unpacked run with their paths in the crate."""
    return re.sub(rf"{re.escape(str(folder))}/[^/:]+", lambda _: f"{crate}:run", text)


def verify_crate(
    crate: Path, head: str | None = None, allowed_signers: Path | None = None
) -> Verification:
    """Verify a crate and its run, against a head and a file of allowed signers if given."""
    try:
        with open_crate(crate) as (crate_files, run):
            verification = verify(run, head)
    except InputError as error:
        findings = [IntegrityFinding("broken", line) for line in str(error).splitlines()]
        return Verification(run=crate, findings=findings)
    verification.run = crate
    verification.findings = [
        IntegrityFinding(finding.kind, _in_crate(finding.text, run.parent, crate))
        for finding in verification.findings
    ]
    verification.remarks = [f"manifest {chain.digest(crate_files[MANIFEST])}"]
    signature = crate_files.get(SIGNATURE)
    if signature is None:
        signature_state = "not signed"
    elif allowed_signers is None:
        signature_state = "signed; --allowed-signers says by whom"
    elif signer := archive.signer_of(crate_files[MANIFEST], signature, allowed_signers):
        verification.remarks.append(f"signed by {signer}")
        return verification
    else:
        signature_state = f"signed by nobody in {allowed_signers}"
    finding_text = f"{crate}: who made it: {signature_state}"
    finding_kind: FindingKind = "contradicted" if allowed_signers else "unproven"
    verification.findings.append(IntegrityFinding(finding_kind, finding_text))
    return verification
