"""Packs a run as a crate: one zip to cite, verify and repeat it; opens and verifies crates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from analysis.report.page import make_reports
from nimc.crate import zipped
from nimc.crate.metadata import CAMPAIGN, REPORT, RUN, descriptions
from nimc.crate.zipped import LARGEST_B, MANIFEST, SIGNATURE, Files
from nimc.run.folder import locked
from nimc.run.verify import IntegrityFinding, Verified, verify
from records import chain, files
from records.errors import InputError, NimcError
from records.run import load_header
from records.run_folder import reason_to_distrust_run

#: Files of a run's folder that go into its crate. Not: output of writers and of ReFrame.
_OF_A_RUN = (
    "run.json",
    "samples/*.jsonl",
    "counters/*.jsonl",
    "provenance/*.json",
    *(f"logs/*/*/{name}.json" for name in ("block", "job", "alone", "length")),
    "logs/*/*/*.out",
    "logs/*/*/*.gz",
    "logs/*/*/reframe/**/spack.lock",
)
_REPORTED = ("report.html", "results.json")


def run_files(run: Path) -> dict[str, bytes]:
    """The files of a run's folder that are packed, by their names in the crate.

    Raises InputError for links and for what is no regular file.
    """
    paths = (path for pattern in _OF_A_RUN for path in run.glob(pattern))
    return {f"{RUN}{path.relative_to(run)}": files.read_regular(path, LARGEST_B) for path in paths}


def report_files(run: Path) -> dict[str, bytes]:
    """Page and results of an unpacked run, on which alone they depend; they are written to it.

    Raises InputError if the run has integrity faults.
    """
    folder = run / "report"
    make_reports([run], folder, shell=None)
    return {name: (folder / name).read_bytes() for name in _REPORTED}


def _unpacked(content: Files, folder: Path) -> Path:
    """The run of a crate, in a new folder of its own name in the temporary `folder`.

    That need not outlive a crash, so that no file needs a flush (`records.files`).
    """
    for name, text in content.items():
        if name.startswith(RUN):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
    return (folder / RUN).rename(folder / load_header(folder / RUN).run)


def pack(
    run: Path, crate: Path, license_: str, authors: Sequence[str], key: Path | None = None
) -> dict[str, Any]:
    """Write the crate of a run, signed if there is a key; the same run gives the same bytes.

    Returns its path, size, number of files, the SHA-256 of the manifest, which covers all other
    files, the head of the chain in it, None if its samples are in no chain, and whether the run is
    finished. Raises InputError for a run that is another user's, is being measured, or does not
    verify.
    """
    if reason := reason_to_distrust_run(run):
        raise InputError(f"{run}: {reason}; allowed: your own run")
    finished = load_header(run).finished_s is not None
    # Samples added between two reads would have no counts, or not the head that is printed.
    with nullcontext() if finished else locked(run, "wait for it, or end it"):
        verified = verify(run)
        if not verified.is_sound:
            raise InputError(
                *(finding.text for finding in verified.findings if finding.kind != "unproven")
            )
        header, content = load_header(run), run_files(run)
    # The analysis reads no outputs, which are most of the files.
    read = {name: text for name, text in content.items() if not name.endswith((".out", ".gz"))}
    with TemporaryDirectory() as folder:
        report = report_files(_unpacked(read, Path(folder)))
    content |= {f"{REPORT}{name}": text for name, text in report.items()}
    content |= {CAMPAIGN: header.campaign_text.encode(), **descriptions(header, license_, authors)}
    content[MANIFEST] = zipped.manifest(content)
    if key:
        content[SIGNATURE] = zipped.sign(content[MANIFEST], key)
    raw = zipped.zipped(content)
    files.replace_bytes(crate, raw)
    return {
        "crate": str(crate),
        "size_b": len(raw),
        "files": len(content),
        "manifest_sha256": chain.digest(content[MANIFEST]),
        "head": verified.head,
        "finished": finished,
    }


# Opened: no byte of a crate was changed since it was packed, and who signed it.


@contextmanager
def opened(crate: Path) -> Iterator[tuple[Files, Path]]:
    """Files of a crate, as its manifest lists them, and its run, unpacked in a folder that goes.

    The run has still to be verified. Raises InputError with a line for each fault, by its place in
    the crate; nothing is unpacked before all bytes are checked.
    """
    raw = files.read_regular(crate, LARGEST_B)
    try:
        content = zipped.unzipped(raw)
    except InputError as error:
        raise InputError(f"{crate}: {error}") from None
    with TemporaryDirectory() as folder:
        try:
            run = _unpacked(content, Path(folder))
            if content.get(CAMPAIGN) != load_header(run).campaign_text.encode():
                # It is what people read before they repeat it.
                raise InputError(f"{crate}: {CAMPAIGN}: is not what run/run.json has")
            yield content, run
        except NimcError as error:
            error.args = tuple(_in_crate(str(line), Path(folder), crate) for line in error.args)
            raise


def _in_crate(text: str, folder: Path, crate: Path) -> str:
    """A text that names files of the unpacked run, by their places in the crate."""
    return re.sub(rf"{re.escape(str(folder))}/[^/:]+", lambda _: f"{crate}:run", text)


def verify_crate(crate: Path, head: str | None = None, allowed: Path | None = None) -> Verified:
    """Verify a crate, and the run in it as `nimc.run.verify` does; `allowed`: file of signers."""
    try:
        with opened(crate) as (content, run):
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
        why = "not signed"
    elif allowed is None:
        why = "signed; --allowed-signers says by whom"
    elif signer := zipped.signer_of(content[MANIFEST], signature, allowed):
        verified.remarks.append(f"signed by {signer}")
        return verified
    else:
        why = f"signed by nobody in {allowed}"
    text = f"{crate}: who made it: {why}"
    verified.findings.append(IntegrityFinding("contradicted" if allowed else "unproven", text))
    return verified
