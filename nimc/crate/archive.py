"""Makes and reads the zip of a crate, its manifest, and the manifest's signature.

A crate is a zip with the run of a campaign. Its files are sorted by name, dated 1980-01-01 and not
compressed, so that packing the same files gives the same bytes. A zip that another program has made
can be read too, if its files are not compressed. Since compressed files are refused, a file never
takes more memory than the zip, whatever size the zip's headers state.
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

#: Name of a file in the crate (with `/` between folders) -> content of the file.
Files = Mapping[str, bytes]

#: Largest allowed size of a crate, bytes.
MAX_CRATE_B = 1 << 30
#: Largest number of files in a zip without the ZIP64 extensions.
MAX_FILES = 0xFFFF

#: Names of the manifest and of its signature in the crate.
MANIFEST, SIGNATURE = "manifest-sha256.txt", "manifest-sha256.txt.sig"

#: First bytes of an entry in the central directory of a zip, and first bytes of a local header.
_DIRECTORY_ENTRY_MAGIC, _LOCAL_HEADER_MAGIC = b"PK\1\2", b"PK\3\4"
#: Fields of a local header that are read: first bytes, flags, compression method, checksum,
#: compressed size, size.
_LOCAL_HEADER = struct.Struct("<4s2xHH4xIII")
#: Flag which says that the name of a file is in UTF-8.
_UTF8_FLAG = 0x800
#: Number of bits by which a file's mode is shifted in the external attributes of its entry.
_MODE_SHIFT = 16


def make_zip(files: Files) -> bytes:
    """Return a zip of `files`.

    Raises InputError if a name is not allowed, or if there are too many files or bytes.
    """
    if len(files) > MAX_FILES:
        raise InputError(f"the crate has {len(files)} files; allowed: {MAX_FILES}")
    if sum(map(len, files.values())) > MAX_CRATE_B:  # checked before memory is used for the zip
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
    """Raise InputError if a file's name may lead out of the crate's folder, or is not printable."""
    leads_out = any(part in ("", ".", "..") for part in name.split("/"))
    if leads_out or "\\" in name or not name.isprintable():
        raise InputError(
            f"{shown_value(name)} found; allowed: plain names of files within the crate"
        )


def read_zip(zip_bytes: bytes) -> dict[str, bytes]:
    """Return the files of a crate.

    All headers are checked before a file is read. Raises InputError if a header is wrong, or if the
    manifest does not list exactly the crate's files and their digests.
    """
    # Entries are counted before `zipfile` reads them, since they are larger in memory than in the
    # zip.
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
    except Exception as error:  # `zipfile` raises many kinds of errors
        raise InputError(f"is damaged, or no zip: {error}") from None
    if files.get(MANIFEST) != manifest(files):
        raise InputError(
            f"{MANIFEST}: does not list these files; `sha256sum -c` names those that differ"
        )
    return files


def _require_stored(entry: zipfile.ZipInfo, zip_bytes: bytes) -> None:
    """Raise InputError if a file is compressed, encrypted or a link.

    InputError is also raised if the file's local header differs from its entry in the central
    directory.
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


# The manifest has the SHA-256 of every file, in the form that sha256sum(1) can check. The signature
# of a crate is the signature of its manifest.


def manifest(files: Files) -> bytes:
    """Return the manifest: a line with digest and name for each file, sorted by name.

    The manifest itself and its signature are left out.
    """
    names = sorted(files.keys() - {MANIFEST, SIGNATURE})
    return "".join(f"{digest(files[name])}  {name}\n" for name in names).encode()


# `ssh-keygen -Y` of OpenSSH makes and checks the signature of the manifest.


#: Purpose that is part of a signature. A signature by the same key for another purpose is not
#: valid.
NAMESPACE = "nimc"
#: How long the owner of a key may take to type its passphrase, seconds.
_PASSPHRASE_TIMEOUT_S = 300.0


def sign(content: bytes, key: Path) -> bytes:
    """Return the signature of a manifest's content.

    `key` is the file of a private key, or of a public key whose private key is in the running SSH
    agent. Raises InputError if the key cannot sign.
    """
    answer = _ssh_keygen("sign", "-n", NAMESPACE, "-f", str(key.absolute()), content=content)
    if not answer.ok:
        raise InputError(f"--sign: {key}: {answer.reason}")
    return answer.stdout.encode()


def signer_of(content: bytes, signature: bytes, allowed_signers: Path) -> str | None:
    """Return the name of the allowed signer who signed a manifest's content.

    Returns None if no allowed signer signed it. `allowed_signers` is OpenSSH's file that lists
    them.
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
