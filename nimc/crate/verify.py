"""What a crate shows: that no byte of it was changed since it was packed, and who signed it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from nimc.crate.metadata import CAMPAIGN, RUN
from nimc.crate.pack import inside, written
from nimc.crate.zipped import (
    LARGEST_B,
    MANIFEST,
    SIGNATURE,
    Files,
    Signed,
    check_signature,
    manifest_faults,
    unzipped,
)
from nimc.run.verify import Finding, Kind, Verified, verify
from records import chain
from records.errors import InputError, NimcError
from records.files import read_regular
from records.run import load_header


@dataclass(frozen=True)
class Opened:
    """A crate whose files are as its manifest lists them; its run has still to be verified."""

    files: Files
    #: The run in it, unpacked.
    run: Path
    manifest_sha256: str
    #: None: it is not signed.
    signed: Signed | None


def opened(crate: Path, folder: Path, allowed: Path | None = None) -> Opened:
    """Check a crate and unpack its run below `folder`; `allowed`: file of allowed signers.

    Raises InputError with a line for each fault. Nothing is unpacked before all bytes are checked.
    """
    content = read_regular(crate, LARGEST_B)
    try:
        files = unzipped(content)
    except InputError as error:
        raise InputError(f"{crate}: {error}") from None
    if faults := manifest_faults(files):
        raise InputError(*(f"{crate}: {fault}" for fault in faults))
    signed = None
    if SIGNATURE in files:
        try:
            signed = check_signature(files[MANIFEST], files[SIGNATURE], allowed)
        except InputError as error:
            raise InputError(f"{crate}: {SIGNATURE}: {error}") from None
    with named_within(crate, folder, folder / RUN):
        run = written(inside(files, RUN), folder)
        asked = load_header(run).campaign_text
    if files.get(CAMPAIGN) != asked.encode():  # what people read before they repeat it
        raise InputError(f"{crate}: {CAMPAIGN}: is not what run/run.json has")
    return Opened(files, run, chain.digest(files[MANIFEST]), signed)


@contextmanager
def named_within(crate: Path, folder: Path, run: Path) -> Iterator[None]:
    """Errors name what is in the crate by its place there, not where it was unpacked."""
    try:
        yield
    except NimcError as error:
        places = {f"{run}": f"{crate}:run", f"{folder}/": f"{crate}:"}
        for unpacked, place in places.items():
            error.args = tuple(str(line).replace(unpacked, place) for line in error.args)
        raise


@dataclass(frozen=True)
class VerifiedCrate(Verified):
    """What was found of a crate and of the run in it."""

    #: None if it could not be unpacked; and of its signature, None if it has none.
    manifest_sha256: str | None
    signed: Signed | None

    def remarks(self) -> list[str]:
        """Remarks that are not findings."""
        lines = [f"manifest {self.manifest_sha256}"] if self.manifest_sha256 else []
        if self.signed and self.signed.signer:
            lines.append(f"signed by {self.signed.signer} ({self.signed.key})")
        return lines


def verify_crate(
    crate: Path, head: str | None = None, allowed: Path | None = None
) -> VerifiedCrate:
    """Verify a crate and the run in it, as `nimc.run.verify` does; `allowed`: as `opened`."""
    with TemporaryDirectory() as folder:
        try:
            unpacked = opened(crate, Path(folder), allowed)
        except InputError as error:
            broken = [Finding("broken", line) for line in str(error).splitlines()]
            return VerifiedCrate(crate, 0, 0, 0, None, broken, None, None)
        of = verify(unpacked.run, head)
    findings = [
        replace(finding, text=finding.text.replace(f"{unpacked.run}", f"{crate}:run"))
        for finding in of.findings
    ]
    findings += _of_signature(crate, unpacked.signed, allowed)
    counts = of.samples, of.reread, of.judged, of.head
    return VerifiedCrate(crate, *counts, findings, unpacked.manifest_sha256, unpacked.signed)


def _of_signature(crate: Path, signed: Signed | None, allowed: Path | None) -> list[Finding]:
    """Unproven who made it; a fault where signers are given and it is signed by none of them."""
    if signed and signed.signer:
        return []
    by = f"signed with {signed.key}, which {allowed} does not list" if signed else "not signed"
    if signed and not allowed:
        by = f"signed with {signed.key}; --allowed-signers says whose key it is"
    kind: Kind = "contradicted" if allowed else "unproven"
    return [Finding(kind, f"{crate}: who made it: {by}")]
