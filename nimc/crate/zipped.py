"""The zip of a crate, its manifest, and the signature of that.

Files are in order of their names, dated 1980-01-01 and not compressed, so that packing the same
files gives the same bytes. Other programs may pack them anew, but not compressed: what is read is
then as large as it is in the zip, whatever that states.
"""

from __future__ import annotations

import io
import stat
import struct
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from records.chain import digest
from records.errors import InputError, MachineError, show
from records.programs import ProgramAnswer, ask, which

#: Name of a file in the crate, with `/` between folders -> its content.
Files = Mapping[str, bytes]

#: Largest crate, bytes, and the most files of a zip without extensions.
LARGEST_B, MOST_FILES = 1 << 30, 0xFFFF

MANIFEST, SIGNATURE = "manifest-sha256.txt", "manifest-sha256.txt.sig"

#: Begins the entry of a file in the zip's directory, and its own header.
_LISTED, _BEGUN = b"PK\1\2", b"PK\3\4"
#: Of a file's own header: how it begins, flags, method, checksum, and both sizes.
_HEADER = struct.Struct("<4s2xHH4xIII")
#: The flag of names in UTF-8.
_UTF8 = 0x800


def zipped(files: Files) -> bytes:
    """The zip. Raises InputError for names or sizes that a crate cannot have."""
    if len(files) > MOST_FILES:
        raise InputError(f"the crate has {len(files)} files; allowed: {MOST_FILES}")
    if sum(map(len, files.values())) > LARGEST_B:  # before the memory for it is needed
        _refuse_large()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
        for name, content in sorted(files.items()):
            _require_plain(name)
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, content)
    if out.tell() > LARGEST_B:
        _refuse_large()
    return out.getvalue()


def _refuse_large() -> NoReturn:
    raise InputError(f"the crate is larger than allowed: {LARGEST_B >> 20} MiB")


def _require_plain(name: str) -> None:
    outside = any(part in ("", ".", "..") for part in name.split("/"))
    if outside or "\\" in name or not name.isprintable():
        raise InputError(f"{show(name)} found; allowed: plain names of files within the crate")


def unzipped(raw: bytes) -> dict[str, bytes]:
    """The files of a crate, which its manifest lists. Raises InputError.

    All headers are checked before a file is read.
    """
    if raw.count(_LISTED) > MOST_FILES:  # each takes more memory than it has bytes
        raise InputError(f"has more files than allowed: {MOST_FILES}")
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            entries = archive.infolist()
            for entry in entries:
                _require_plain(entry.orig_filename)
                _require_stored(entry, raw)
            if len({entry.filename for entry in entries}) < len(entries):
                raise InputError("has two files of one name")
            if sum(entry.file_size for entry in entries) > len(raw):
                raise InputError("its files are larger than the zip itself")
            files = {entry.filename: archive.read(entry) for entry in entries}
    except InputError:
        raise
    except Exception as error:  # `zipfile` has many
        raise InputError(f"is damaged, or no zip: {error}") from None
    if files.get(MANIFEST) != manifest(files):
        raise InputError(f"{MANIFEST}: does not list these files; sha256sum -c says which differ")
    return files


def _require_stored(entry: zipfile.ZipInfo, raw: bytes) -> None:
    """Raises InputError for what is compressed, encrypted, a link, or stated in two ways."""
    kind = stat.S_IFMT(entry.external_attr >> 16)
    flags, method = entry.flag_bits & ~_UTF8, entry.compress_type
    listed = (flags, method, entry.CRC, entry.compress_size, entry.file_size)
    begun, own_flags, *own = _HEADER.unpack_from(raw, entry.header_offset)
    if begun != _BEGUN or (own_flags & ~_UTF8, *own) != listed:
        raise InputError(f"{entry.filename}: its header is not what the zip lists")
    if flags or method or entry.compress_size != entry.file_size or kind not in (0, stat.S_IFREG):
        raise InputError(
            f"{entry.filename}: compressed, encrypted or a link; allowed: as of zip -0"
        )


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
