"""What a crate shows: that no byte of it was changed since it was packed, and who signed it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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


@contextmanager
def opened(crate: Path, allowed: Path | None = None) -> Iterator[Opened]:
    """A crate, checked, its run unpacked in a folder that goes; `allowed`: file of signers.

    Errors name what is in the crate by its place there. Raises InputError with a line for each
    fault; nothing is unpacked before all bytes are checked.
    """
    content = read_regular(crate, LARGEST_B)
    with TemporaryDirectory() as folder:
        run, at = Path(folder, RUN), f"{crate}: "
        try:
            files = unzipped(content)
            if faults := manifest_faults(files):
                raise InputError(*faults)
            signed, at = _signed(files, allowed), ""
            run = written(inside(files, RUN), Path(folder))
            if files.get(CAMPAIGN) != load_header(run).campaign_text.encode():
                # It is what people read before they repeat it.
                raise InputError(f"{crate}: {CAMPAIGN}: is not what run/run.json has")
            yield Opened(files, run, chain.digest(files[MANIFEST]), signed)
        except NimcError as error:
            lines = (str(line).replace(str(run), f"{crate}:run") for line in error.args)
            error.args = tuple(f"{at}{line.replace(f'{folder}/', f'{crate}:')}" for line in lines)
            raise


def _signed(files: Files, allowed: Path | None) -> Signed | None:
    """Who signed the manifest. Raises InputError if the signature is not valid for it."""
    if SIGNATURE not in files:
        return None
    try:
        return check_signature(files[MANIFEST], files[SIGNATURE], allowed)
    except InputError as error:
        raise InputError(f"{SIGNATURE}: {error}") from None


@dataclass
class VerifiedCrate(Verified):
    """What is true of a crate and of the run in it."""

    #: None if it could not be unpacked; and of its signature, None if it has none.
    manifest_sha256: str | None = None
    signed: Signed | None = None

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
    try:
        with opened(crate, allowed) as unpacked:
            of = verify(unpacked.run, head)
    except InputError as error:
        broken = [Finding("broken", line) for line in str(error).splitlines()]
        return VerifiedCrate(crate, 0, 0, 0, None, broken)
    findings = [
        Finding(finding.kind, finding.text.replace(f"{unpacked.run}", f"{crate}:run"))
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
