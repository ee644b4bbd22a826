"""The zip of a crate, its manifest, and the manifest's signature.

Files are in order of their names, dated 1980-01-01 and not compressed, so that packing the same
files gives the same bytes. A zip that another program packed is read, too, if its files are not
compressed. So no file takes more memory than the zip, whatever size its header states.
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
from records.errors import InputError, MachineError, shown_value
from records.programs import ProgramAnswer, ask, find_program

#: Name of a file in the crate, with `/` between folders -> its content.
Files = Mapping[str, bytes]

#: Size of the largest crate, bytes.
MAX_CRATE_B = 1 << 30
#: Most files that a zip without the ZIP64 extensions can have.
MAX_FILES = 0xFFFF

MANIFEST, SIGNATURE = "manifest-sha256.txt", "manifest-sha256.txt.sig"

#: First bytes of an entry in the central directory of a zip, and of the local header of a file.
_DIRECTORY_ENTRY_MAGIC, _LOCAL_HEADER_MAGIC = b"PK\1\2", b"PK\3\4"
#: Fields of a local header: first bytes, flags, method, checksum, compressed size, size.
_LOCAL_HEADER = struct.Struct("<4s2xHH4xIII")
#: The flag of an entry whose name is in UTF-8.
_UTF8_FLAG = 0x800
#: Position of the mode of a file in the external attributes of its entry, bits.
_MODE_SHIFT = 16


def make_zip(files: Files) -> bytes:
    """Return a zip of `files`. Raises InputError for a name or size that is not allowed."""
    if len(files) > MAX_FILES:
        raise InputError(f"the crate has {len(files)} files; allowed: {MAX_FILES}")
    if sum(map(len, files.values())) > MAX_CRATE_B:  # before the zip takes memory
        _refuse_large()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED, allowZip64=False) as zip_file:
        for name, content in sorted(files.items()):
            _require_inside(name)
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (stat.S_IFREG | 0o644) << _MODE_SHIFT
            zip_file.writestr(entry, content)
    if buffer.tell() > MAX_CRATE_B:
        _refuse_large()
    return buffer.getvalue()


def _refuse_large() -> NoReturn:
    raise InputError(f"the crate is larger than allowed: {MAX_CRATE_B >> 20} MiB")


def _require_inside(name: str) -> None:
    """Raise InputError for a name that may lead out of the crate's folder, or is not printable."""
    leads_out = any(part in ("", ".", "..") for part in name.split("/"))
    if leads_out or "\\" in name or not name.isprintable():
        raise InputError(
            f"{shown_value(name)} found; allowed: plain names of files within the crate"
        )


def read_zip(zip_bytes: bytes) -> dict[str, bytes]:
    """Return the files of a crate. Raises InputError unless its manifest lists exactly these.

    All headers are checked before a file is read.
    """
    # Counted before `zipfile` reads the entries: in memory they are larger than in the zip.
    if zip_bytes.count(_DIRECTORY_ENTRY_MAGIC) > MAX_FILES:
        raise InputError(f"has more files than allowed: {MAX_FILES}")
    try:
        with zipfile.ZipFile(io.BytesIO(zip_bytes)) as zip_file:
            entries = zip_file.infolist()
            for entry in entries:
                _require_inside(entry.orig_filename)
                _require_stored(entry, zip_bytes)
            if len({entry.filename for entry in entries}) < len(entries):
                raise InputError("has two files with the same name")
            if sum(entry.file_size for entry in entries) > len(zip_bytes):
                raise InputError("its files are larger than the zip itself")
            files = {entry.filename: zip_file.read(entry) for entry in entries}
    except InputError:
        raise
    except Exception as error:  # `zipfile` raises many kinds
        raise InputError(f"is damaged, or no zip: {error}") from None
    if files.get(MANIFEST) != manifest(files):
        raise InputError(
            f"{MANIFEST}: does not list these files; `sha256sum -c` names those that differ"
        )
    return files


def _require_stored(entry: zipfile.ZipInfo, zip_bytes: bytes) -> None:
    """Raise InputError for a file that is compressed, encrypted or a link.

    InputError is also raised if the local header differs from the entry in the central directory.
    """
    flags, method = entry.flag_bits & ~_UTF8_FLAG, entry.compress_type
    entry_fields = (flags, method, entry.CRC, entry.compress_size, entry.file_size)
    local_header = _LOCAL_HEADER.unpack_from(zip_bytes, entry.header_offset)
    magic, local_flags, *other_local_fields = local_header
    local_fields = (local_flags & ~_UTF8_FLAG, *other_local_fields)
    if magic != _LOCAL_HEADER_MAGIC or local_fields != entry_fields:
        raise InputError(f"{entry.filename}: its header differs from the list of files in the zip")
    file_type = stat.S_IFMT(entry.external_attr >> _MODE_SHIFT)
    has_stored_method = not flags and method == zipfile.ZIP_STORED
    is_stored = has_stored_method and entry.compress_size == entry.file_size
    if not is_stored or file_type not in (0, stat.S_IFREG):
        raise InputError(
            f"{entry.filename}: compressed, encrypted or a link; allowed: files stored by zip -0"
        )


# The manifest has the SHA-256 of every file. sha256sum(1) checks it, and a signature signs it.


def manifest(files: Files) -> bytes:
    """Return the manifest: a line for each file but itself and its signature, sorted by name."""
    names = sorted(files.keys() - {MANIFEST, SIGNATURE})
    return "".join(f"{digest(files[name])}  {name}\n" for name in names).encode()


# OpenSSH makes and checks the signature of the manifest (`ssh-keygen -Y`).


#: The purpose of a signature. One that the same key made for another purpose is not valid here.
NAMESPACE = "nimc"
#: How long the owner of a key may take to type its passphrase, seconds.
_PASSPHRASE_TIMEOUT_S = 300.0


def sign(content: bytes, key: Path) -> bytes:
    """Return the signature of a manifest's content.

    `key`: file of a private key, or of a public key whose private key is in the running agent.
    """
    answer = _ssh_keygen("sign", "-n", NAMESPACE, "-f", str(key.absolute()), content=content)
    if not answer.ok:
        raise InputError(f"--sign: {key}: {answer.reason}")
    return answer.stdout.encode()


def signer_of(content: bytes, signature: bytes, allowed_signers: Path) -> str | None:
    """Return the allowed signer who signed a manifest's content; None if none of them did.

    `allowed_signers` is the file that lists them.
    """
    with tempfile.NamedTemporaryFile(suffix=".sig") as file:
        file.write(signature)
        file.flush()
        file_options = ("-s", file.name, "-f", str(allowed_signers.absolute()))
        for names in _ssh_keygen("find-principals", *file_options).stdout.splitlines():
            signer, *_ = names.split(",")
            options = ("-n", NAMESPACE, *file_options, "-I", signer)
            if _ssh_keygen("verify", *options, content=content).ok:
                return signer
    return None


def _ssh_keygen(command: str, *options: str, content: bytes = b"") -> ProgramAnswer:
    program = find_program("ssh-keygen")
    if program is None:
        raise MachineError("ssh-keygen: not found on this host; it is part of OpenSSH")
    stdin = content.decode(errors="replace")
    return ask([program, "-Y", command, *options], stdin=stdin, timeout_s=_PASSPHRASE_TIMEOUT_S)
