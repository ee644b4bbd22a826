"""Packs a run as a crate: one zip with everything that it takes to cite, verify and repeat it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from analysis.report.data import load_run
from nimc.base.errors import InputError
from nimc.base.files import replace, user_name
from nimc.crate import contents
from nimc.crate.anonymous import renamed
from nimc.crate.contents import REPORT, RUN, below
from nimc.crate.metadata import About, descriptions
from nimc.crate.zipped import MANIFEST, SIGNATURE, manifest, sign, zipped
from nimc.records import chain
from nimc.records.run_folder import distrust_run
from nimc.run.verify import verify


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
    #: With pseudonyms: who has it and the original run can show that the crate was made of it.
    salt: str | None


def pack(
    run: Path,
    crate: Path,
    *,
    license: str,
    authors: Sequence[str],
    key: Path | None = None,
    anonymous: bool = False,
) -> Packed:
    """Write the crate of a run; the same run gives the same bytes, but for a salt.

    Raises InputError for a run that is another user's or does not verify.
    """
    if reason := distrust_run(run):
        raise InputError(f"{run}: {reason}; allowed: your own run")
    if not (found := verify(run)).is_sound:
        raise InputError(*(each.text for each in found.findings if each.kind != "unproven"))
    loaded = load_run(run)
    files, salt, original = contents.run_files(run), None, None
    if anonymous:
        files = renamed(files, user_name(run.lstat().st_uid))
        if loaded.integrity.head:
            salt = secrets.token_hex(32)
            original = commitment(salt, loaded.integrity.head)
    with TemporaryDirectory() as folder:
        copy = contents.written(files, Path(folder))
        packed, report = load_run(copy), contents.report_files(copy)
    header, head = packed.header, packed.integrity.head
    made = {
        **below(RUN, files),
        **below(REPORT, report),
        **below("locks", contents.python_locks(header.commit)),
        **contents.header_files(header),
    }
    about = About(license, authors, head, loaded.earlier(), anonymous, original)
    made |= descriptions(header, about, made)
    made[MANIFEST] = manifest(made)
    if key:
        made[SIGNATURE] = sign(made[MANIFEST], key)
    raw = zipped(made)
    replace(crate, raw)
    return Packed(str(crate), len(raw), len(made), chain.digest(made[MANIFEST]), head, salt)


def commitment(salt: str, head: str) -> str:
    """What binds a crate with pseudonyms to the head of the original, without showing it.

    A head alone could be used to find out whether guessed names are the right ones.
    """
    return chain.digest(f"{salt}{head}".encode())
