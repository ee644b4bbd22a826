"""Packs runs as crates, and opens and verifies crates.

A crate is a zip with the run of a campaign, its report and a manifest.
"""

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
from records.run import RunHeader, load_header
from records.run_folder import reason_to_distrust_run

#: Patterns of the files in a run's folder that go into its crate. The outputs of writers and of
#: ReFrame do not.
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

    Raises InputError if one of them is not a regular file, for example a link.
    """
    return {
        f"{RUN_FOLDER}{path.relative_to(run)}": files.read_regular(path, MAX_CRATE_B)
        for path in _packed_paths(run)
    }


def _packed_paths(run: Path) -> list[Path]:
    """Return the files of a run's folder that go into its crate."""
    return [path for pattern in _RUN_PATTERNS for path in run.glob(pattern)]


def _require_size_of_crate(run: Path) -> None:
    """Raise InputError if a run is too large for a crate.

    This is found out before the run is verified, which may take minutes.
    """
    size_b = sum(path.lstat().st_size for path in _packed_paths(run))
    if size_b > MAX_CRATE_B:
        raise InputError(
            f"{run}: has {size_b >> 20} MiB to pack; allowed: {MAX_CRATE_B >> 20} MiB;"
            " logs/CASE/BLOCK/*.out and *.gz are the outputs of the application"
        )


def report_files(run: Path) -> dict[str, bytes]:
    """Write the report of an unpacked run to the run's folder, and return file name -> content.

    The content depends only on the run. Raises InputError if the run has integrity faults.
    """
    report_folder = run / "report"
    # The page is read on other hosts, so its commands are not adapted to this host's shell.
    make_reports([run], report_folder, shell=None)
    return {name: (report_folder / name).read_bytes() for name in _REPORT_FILES}


def _unpack_run(crate_files: Files, folder: Path) -> Path:
    """Write the run of a crate to a new folder in `folder`, and return the new folder.

    It has the name of the run. Files are not flushed to disk, since `folder` is temporary and need
    not survive a crash.
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
    """Write the crate of a run to the file `crate`. It is signed if a `key` is given.

    The same run, license and authors always give the same bytes, except for the signature. Returns
    facts about the crate: path, size, number of files, SHA-256 of the manifest, head of the chain,
    and whether the run is finished. Raises InputError if the run belongs to another user, is being
    measured, is too large or has faults, and if `crate` exists but is no crate of this run.
    """
    if reason := reason_to_distrust_run(run):
        raise InputError(f"{run}: {reason}; allowed: your own run")
    header = load_header(run)
    if crate.exists():
        _require_crate_of(header, crate)
    _require_size_of_crate(run)
    is_finished = header.finished_s is not None
    # An unfinished run is locked, so that no samples are added while it is read. Otherwise the
    # crate might lack the counters of added samples, or the printed head might not cover them.
    with nullcontext() if is_finished else locked(run, "wait for it, or end it"):
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
        "finished": is_finished,
    }


def _require_crate_of(header: RunHeader, crate: Path) -> None:
    """Raise InputError if an existing file is not a crate of the run with this header."""
    allowed = f"allowed: a new file, or a crate of {header.run}"
    try:
        with open_crate(crate) as (_, run):
            packed = load_header(run)
    except NimcError:
        raise InputError(f"{crate}: exists, and is no crate; {allowed}") from None
    if (packed.run, packed.digest) != (header.run, header.digest):
        raise InputError(f"{crate}: is a crate of {packed.run}; {allowed}")


# Opens and verifies crates. First the files are compared with the manifest, then the signature is
# checked.


@contextmanager
def open_crate(crate: Path) -> Iterator[tuple[Files, Path]]:
    """Yield the files of a crate and the temporary folder of its unpacked run.

    All files are compared with the crate's manifest before the run is unpacked. The run itself is
    not yet verified. Raises InputError with a line for each fault. The line names the file in the
    crate.
    """
    zip_bytes = files.read_regular(crate, MAX_CRATE_B, follow=True)
    try:
        crate_files = archive.read_zip(zip_bytes)
    except InputError as error:
        raise InputError(f"{crate}: {error}") from None
    with TemporaryDirectory() as folder:
        try:
            run = _unpack_run(crate_files, Path(folder))
            if crate_files.get(PACKED_CAMPAIGN) != load_header(run).campaign_text.encode():
                # People read this file before they repeat the run, but a repetition uses the
                # campaign in the run's header. So both must be equal.
                raise InputError(
                    f"{crate}: {PACKED_CAMPAIGN}: differs from the campaign in run/run.json"
                )
            yield crate_files, run
        except NimcError as error:
            error.args = tuple(
                _with_crate_paths(str(arg), Path(folder), crate) for arg in error.args
            )
            raise


def _with_crate_paths(text: str, folder: Path, crate: Path) -> str:
    """Return a text with the paths of the unpacked run's files replaced by paths in the crate."""
    return re.sub(rf"{re.escape(str(folder))}/[^/:]+", lambda _: f"{crate}:run", text)


def verify_crate(
    crate: Path, head: str | None = None, allowed_signers: Path | None = None
) -> Verification:
    """Verify a crate and its run.

    If `head` is given, the head of the run's chain must be equal to it. If `allowed_signers` is
    given (OpenSSH's file of this name), one of these signers must have signed the crate.
    """
    try:
        with open_crate(crate) as (crate_files, run):
            verification = verify(run, head)
    except InputError as error:
        findings = [IntegrityFinding("broken", line) for line in str(error).splitlines()]
        return Verification(run=crate, findings=findings)
    verification.run = crate
    verification.findings = [
        IntegrityFinding(finding.kind, _with_crate_paths(finding.text, run.parent, crate))
        for finding in verification.findings
    ]
    verification.remarks = [f"manifest {chain.digest(crate_files[MANIFEST])}"]
    signature = crate_files.get(SIGNATURE)
    if signature is None:
        signature_state = "not signed"
    elif allowed_signers is None:
        signature_state = "signed; give --allowed-signers to see by whom"
    elif signer := archive.signer_of(crate_files[MANIFEST], signature, allowed_signers):
        verification.remarks.append(f"signed by {signer}")
        return verification
    else:
        signature_state = f"signed by nobody in {allowed_signers}"
    finding_text = f"{crate}: who made it: {signature_state}"
    finding_kind: FindingKind = "contradicted" if allowed_signers else "unproven"
    verification.findings.append(IntegrityFinding(finding_kind, finding_text))
    return verification
