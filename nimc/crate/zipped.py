"""The zip of a crate, its manifest, and the signature of that.

Files are in order of their names, dated 1980-01-01 and not compressed. So whoever packs the same
files gets the same bytes, and a zip of which any byte was changed, headers included, is not the one
that packing its files gives. Nothing in it can be larger than the zip itself.
"""

from __future__ import annotations

import io
import stat
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from records.chain import digest
from records.errors import InputError, MachineError, show
from records.programs import ProgramAnswer, ask, which

#: Name of a file in the crate, with `/` between folders -> its content.
Files = Mapping[str, bytes]

#: Largest crate, bytes.
LARGEST_B = 1 << 30

MANIFEST, SIGNATURE = "manifest-sha256.txt", "manifest-sha256.txt.sig"


def zipped(files: Files) -> bytes:
    """The zip. Raises InputError for names or sizes that a crate cannot have."""
    if sum(map(len, files.values())) > LARGEST_B:
        raise InputError(f"the crate is larger than allowed: {LARGEST_B >> 20} MiB")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
        for name, content in sorted(files.items()):
            outside = any(part in ("", ".", "..") for part in name.split("/"))
            if outside or "\\" in name or not name.isprintable():
                allowed = "plain names of files within the crate"
                raise InputError(f"{show(name)} found; allowed: {allowed}")
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, content)
    return out.getvalue()


def unzipped(raw: bytes) -> dict[str, bytes]:
    """The files of a crate. Raises InputError for all but what `zipped` makes of listed files."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            entries = archive.infolist()
            if sum(entry.file_size for entry in entries) > len(raw):
                raise ValueError("its files are larger than the zip itself")
            files = {entry.filename: archive.read(entry) for entry in entries}
    except Exception as error:  # `zipfile` and its decompressors have many
        raise InputError(f"is damaged, or no zip: {error}") from None
    if zipped(files) != raw:
        raise InputError("is not the zip that packing its files gives: its headers were changed")
    if files.get(MANIFEST) != manifest(files):
        raise InputError(f"{MANIFEST}: does not list these files; sha256sum -c says which differ")
    return files


# The manifest: the SHA-256 of every file, which sha256sum(1) checks, and which is what is signed.


def manifest(files: Files) -> bytes:
    """A line for each file but the manifest and its signature, in order of the names."""
    listed = sorted(files.keys() - {MANIFEST, SIGNATURE})
    return "".join(f"{digest(files[name])}  {name}\n" for name in listed).encode()


# The signature of the manifest, made and checked by OpenSSH (`ssh-keygen -Y`).


#: What a signature is for: one of the same key made for other purposes is not valid here.
NAMESPACE = "nimc"
#: How long the owner of a key may take to type its passphrase, seconds.
_TYPING_S = 300.0


def sign(manifest: bytes, key: Path) -> bytes:
    """The signature of a manifest by a private key, or by a public one whose agent is running."""
    answer = _ssh_keygen("sign", "-n", NAMESPACE, "-f", str(key.absolute()), text=manifest)
    if not answer.ok:
        raise InputError(f"--sign: {key}: {answer.reason}")
    return answer.stdout.encode()


def signer_of(manifest: bytes, signature: bytes, allowed: Path) -> str | None:
    """Who signed the manifest, of the allowed signers in a file; None if none of them did."""
    with tempfile.NamedTemporaryFile(suffix=".sig") as file:
        file.write(signature)
        file.flush()
        named = ("-s", file.name, "-f", str(allowed.absolute()))
        for line in _ssh_keygen("find-principals", *named).stdout.splitlines():
            name = line.split(",")[0]
            if _ssh_keygen("verify", "-n", NAMESPACE, *named, "-I", name, text=manifest).ok:
                return name
    return None


def _ssh_keygen(what: str, *options: str, text: bytes = b"") -> ProgramAnswer:
    program = which("ssh-keygen")
    if program is None:
        raise MachineError("ssh-keygen: not found on this host; it is part of OpenSSH")
    stdin = text.decode(errors="replace")
    return ask([program, "-Y", what, *options], stdin=stdin, timeout_s=_TYPING_S)
