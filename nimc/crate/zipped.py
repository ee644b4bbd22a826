"""The zip of a crate, its manifest, and the signature of that.

The bytes of a zip follow from the names and contents of its files alone.

Files are in order of their names, dated 1980-01-01 and not compressed. So whoever packs the same
files gets the same bytes, and a zip of which any byte was changed, headers included, is not the one
that packing its files gives. Nothing in it can be larger than the zip itself.
"""

from __future__ import annotations

import base64
import io
import re
import stat
import struct
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nimc.base.errors import InputError, MachineError, show
from nimc.base.programs import ProgramAnswer, ask, which
from nimc.records.chain import digest

#: Name of a file in the crate, with `/` between folders -> its content.
Files = Mapping[str, bytes]

#: Largest crate, bytes; most files in one; longest name.
LARGEST_B = 1 << 30
MOST_FILES = 50_000
LONGEST_NAME = 500

MANIFEST, SIGNATURE = "manifest-sha256.txt", "manifest-sha256.txt.sig"
_REGULAR = stat.S_IFREG | 0o644
_UNIX = 3
_ENCRYPTED = 0x41


def zipped(files: Files) -> bytes:
    """The zip. Raises InputError for names or sizes that a crate cannot have."""
    for fault in _faults_of_names(files):
        raise InputError(fault)
    if sum(map(len, files.values())) > LARGEST_B:
        raise InputError(f"the crate is larger than allowed: {LARGEST_B >> 20} MiB")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name)
            entry.create_system = _UNIX
            entry.external_attr = _REGULAR << 16
            archive.writestr(entry, content)
    return out.getvalue()


def unzipped(raw: bytes) -> dict[str, bytes]:
    """The files of a crate. Raises InputError for all but what `zipped` makes."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            for fault in _faults(archive.infolist(), len(raw)):
                raise InputError(fault)
            files = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    except (zipfile.BadZipFile, ValueError, EOFError, OSError, RuntimeError, struct.error) as error:
        raise InputError(f"is damaged, or no zip: {error}") from None
    if zipped(files) != raw:
        raise InputError("is not the zip that packing its files gives: its headers were changed")
    return files


def _faults(entries: list[zipfile.ZipInfo], size_b: int) -> Iterator[str]:
    """Why a zip is not unpacked, from its directory alone."""
    yield from _faults_of_names([entry.filename for entry in entries])
    for entry in entries:
        kind = stat.S_IFMT(entry.external_attr >> 16)
        for broken, fault in (
            (entry.flag_bits & _ENCRYPTED, "is encrypted"),
            (entry.compress_type != zipfile.ZIP_STORED, "is compressed"),
            (entry.compress_size != entry.file_size, "states two sizes"),
            (kind != stat.S_IFREG, "is a link, a folder or a device"),
        ):
            if broken:
                yield f"{show(entry.filename)}: {fault}; allowed: files, not compressed"
    if sum(entry.file_size for entry in entries) > size_b:
        yield "its files are larger than the zip itself"


def _faults_of_names(names: Iterable[str]) -> Iterator[str]:
    counts = Counter(list(names))
    if sum(counts.values()) > MOST_FILES:
        yield f"has more files than allowed: {MOST_FILES}"
    for name, count in counts.items():
        if not _is_plain(name):
            yield f"{show(name)} found; allowed: plain names of files within the crate"
        if count > 1:
            yield f"{show(name)}: is there twice"
        folders = name.split("/")[:-1]
        if any("/".join(folders[: i + 1]) in counts for i in range(len(folders))):
            yield f"{show(name)}: lies in what is a file"


def _is_plain(name: str) -> bool:
    parts = name.split("/")
    return (
        name.isprintable()
        and "\\" not in name
        and len(name.encode()) <= LONGEST_NAME
        and not any(part in ("", ".", "..") for part in parts)
    )


# The manifest: the SHA-256 of every file, which sha256sum(1) checks, and which is what is signed.


def manifest(files: Files) -> bytes:
    """A line for each file but the manifest and its signature, in order of the names."""
    listed = sorted(files.keys() - {MANIFEST, SIGNATURE})
    lines = [f"{digest(files[name])}  {name}\n" for name in listed]
    return "".join(lines).encode()


def manifest_faults(files: Files) -> list[str]:
    """What is not as the manifest of the crate lists it."""
    if MANIFEST not in files:
        return [f"{MANIFEST}: is missing"]
    stated, found = files[MANIFEST], manifest(files)
    if stated == found:
        return []
    listed, there = (set(text.decode(errors="replace").splitlines()) for text in (stated, found))
    names = sorted({line[66:] for line in listed ^ there})
    return [f"{name}: is not what {MANIFEST} lists" for name in names] or [
        f"{MANIFEST}: is not in the order of the names"
    ]


# The signature of the manifest, made and checked by OpenSSH (`ssh-keygen -Y`).


#: What a signature is for: one of the same key made for other purposes is not valid here.
NAMESPACE = "nimc"
_BEGIN, _END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
_LINE = 70
#: How long the owner of a key may take to type its passphrase, seconds.
_TYPING_S = 300.0


@dataclass(frozen=True)
class Signed:
    """A signature that is valid for the manifest."""

    #: Kind and fingerprint of the key.
    key: str
    #: Who has this key, by the file of allowed signers; None: nobody in it, or no file was given.
    signer: str | None


def sign(manifest: bytes, key: Path) -> bytes:
    """The signature of a manifest by a private key, or by a public one whose agent is running."""
    answer = _ssh_keygen("sign", "-f", str(key.absolute()), text=manifest.decode())
    if not answer.ok:
        raise InputError(f"--sign: {key}: {answer.reason}")
    return answer.stdout.encode()


def check_signature(manifest: bytes, signature: bytes, allowed: Path | None) -> Signed:
    """Who signed the manifest. Raises InputError if the signature is not valid for it."""
    if not _is_canonical(signature):
        raise InputError("is not as ssh-keygen writes it")
    text = manifest.decode(errors="replace")
    with tempfile.NamedTemporaryFile(suffix=".sig") as file:
        file.write(signature)
        file.flush()
        valid = _ssh_keygen("check-novalidate", "-s", file.name, text=text)
        if not valid.ok:
            raise InputError(f"is not valid for the manifest: {valid.first}")
        found = re.search(r" with (\S+) key (\S+)", valid.text)
        key = f"{found[1]} {found[2]}" if found else "unknown"
        return Signed(key, _signer(text, file.name, allowed) if allowed else None)


def _signer(text: str, signature: str, allowed: Path) -> str | None:
    """The first of the allowed signers whose signature it is."""
    named = ("-s", signature, "-f", str(allowed.absolute()))
    for line in _ssh_keygen("find-principals", *named).stdout.splitlines():
        name = line.split(",")[0]
        if _ssh_keygen("verify", *named, "-I", name, text=text).ok:
            return name
    return None


def _ssh_keygen(what: str, *options: str, text: str = "") -> ProgramAnswer:
    program = which("ssh-keygen")
    if program is None:
        raise MachineError("ssh-keygen: not found on this host; it is part of OpenSSH")
    command = [program, "-Y", what, *(() if what == "find-principals" else ("-n", NAMESPACE))]
    return ask([*command, *options], stdin=text, timeout_s=_TYPING_S)


def _is_canonical(signature: bytes) -> bool:
    """Whether it has no byte that could be another one without a change of what it says."""
    lines = signature.decode(errors="replace").split("\n")
    try:
        blob = base64.b64decode("".join(lines[1:-2]), validate=True)
    except ValueError:
        return False
    body = base64.b64encode(blob).decode()
    wrapped = [body[start : start + _LINE] for start in range(0, len(body), _LINE)]
    return lines == [_BEGIN, *wrapped, _END, ""]
