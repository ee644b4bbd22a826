"""The zip file of a crate: the same files give the same bytes, and other zip files are refused."""

import io
import random
import stat
import struct
import subprocess
import zipfile
from pathlib import Path

import pytest

from nimc.crate.archive import MANIFEST, make_zip, manifest, read_zip, sign, signer_of
from records.errors import InputError, MachineError

FILES = {"b/c.txt": b"two\n", "a.json": b"{}", "b/stream@rate=25%.jsonl": b"1\n2\n", "é": b""}


def with_manifest(files: dict[str, bytes]) -> dict[str, bytes]:
    return {**files, MANIFEST: manifest(files)}


def test_other_programs_can_read_a_crate_and_its_bytes_depend_only_on_its_files(
    tmp_path: Path,
) -> None:
    files = with_manifest(FILES)
    raw = make_zip(files)
    assert make_zip(dict(reversed(files.items()))) == raw
    assert read_zip(raw) == files
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        archive.extractall(tmp_path)
    command = ["sha256sum", "--strict", "-c", MANIFEST]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.count(": OK\n") == len(FILES)


def test_a_change_of_any_byte_is_refused_or_leaves_all_files_the_same() -> None:
    files = with_manifest(FILES)
    raw = make_zip(files)
    chance = random.Random(7)
    refused = 0
    for position in range(len(raw)):
        edited = bytearray(raw)
        edited[position] ^= chance.randrange(1, 256)
        try:
            assert read_zip(bytes(edited)) == files
        except InputError:
            refused += 1
    # Only two dates of four bytes and two versions of two bytes are not checked.
    assert refused > len(raw) / 2


def test_a_crate_that_another_program_packed_again_is_accepted(tmp_path: Path) -> None:
    files = with_manifest(FILES)
    with zipfile.ZipFile(io.BytesIO(make_zip(files))) as archive:
        archive.extractall(tmp_path)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in reversed(files):
            archive.write(tmp_path / name, name)  # with the file's date and permissions
    assert out.getvalue() != make_zip(files)
    assert read_zip(out.getvalue()) == files


def zip_of_one_file(name: str = "a", *, mode: int = stat.S_IFREG | 0o644, method: int = 0) -> bytes:
    """Return a zip that another program may have made."""
    out = io.BytesIO()
    entry = zipfile.ZipInfo(name)
    entry.external_attr, entry.create_system, entry.compress_type = mode << 16, 3, method
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(entry, b"0" * 100_000)
    return out.getvalue()


def with_stated_size(raw: bytes, size_b: int, *, own: bool, stored: bool = False) -> bytes:
    """Return a zip of one file whose directory states a false size.

    `own`: the file's own header states it too. `stored`: they also state that the file is not
    compressed.
    """
    edited, directory = bytearray(raw), raw.index(b"PK\1\2")
    # The offsets are from the specification of zip, 4.3.7 and 4.3.12.
    for offset, is_edited in ((0, own), (directory + 2, True)):
        if is_edited:
            edited[offset + 22 : offset + 26] = struct.pack("<I", size_b)
        if is_edited and stored:
            edited[offset + 8 : offset + 10] = bytes(2)
    return bytes(edited)


def zip_with_duplicate_name() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a", b"2")
    return out.getvalue()


METHODS = (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
COMPRESSED_ZIPS = [zip_of_one_file(method=method) for method in METHODS]
NOT_STORED, HEADER_DIFFERS = "compressed, encrypted or a link", "its header differs from the list"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (zip_of_one_file("../a"), "plain names"),
        (zip_of_one_file("/etc/a"), "plain names"),
        (zip_of_one_file("a\\b"), "plain names"),
        (zip_of_one_file("a\nb"), "plain names"),
        (zip_of_one_file("a/"), "plain names"),
        (zip_of_one_file(mode=stat.S_IFLNK | 0o777), NOT_STORED),
        *((raw, NOT_STORED) for raw in COMPRESSED_ZIPS),
        # Once, a zip of 1,085 bytes whose file stated 10 bytes but had 2 GB took 2.7 GB of memory.
        *((with_stated_size(raw, 10, own=True), NOT_STORED) for raw in COMPRESSED_ZIPS),
        *((with_stated_size(raw, 10, own=False), HEADER_DIFFERS) for raw in COMPRESSED_ZIPS),
        (
            with_stated_size(zip_of_one_file(method=zipfile.ZIP_BZIP2), 10, own=True, stored=True),
            NOT_STORED,
        ),
        (with_stated_size(zip_of_one_file(), 10, own=True), NOT_STORED),
        (with_stated_size(zip_of_one_file(), 10, own=False), HEADER_DIFFERS),
        (zip_with_duplicate_name(), "two files with the same name"),
        (b"", "no zip"),
    ],
)
def test_a_zip_of_another_form_is_refused_before_its_files_are_read(
    raw: bytes, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda _, entry: read.append(entry.filename))
    with pytest.raises(InputError, match=words):
        read_zip(raw)
    assert not read


def test_a_crate_that_is_too_large_or_has_too_many_files_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = bytearray(make_zip({"a": b"1"}))
    directory = raw.index(b"PK\1\2")
    raw[directory + 20 : directory + 28] = b"\xf0\xff\xff\xff" * 2  # the directory claims 4 GB
    with pytest.raises(InputError):
        read_zip(bytes(raw))
    with pytest.raises(InputError, match="more files than allowed: 65535"):
        read_zip(bytes(raw[directory:]) * 65_536)
    with pytest.raises(InputError, match="65536 files; allowed: 65535"):
        make_zip({str(number): b"" for number in range(65_536)})
    monkeypatch.setattr("nimc.crate.archive.MAX_CRATE_B", 2 << 20)
    largest = make_zip({"a": bytes((2 << 20) - 200)})
    assert len(largest) <= 2 << 20  # so the largest crate that can be written can also be read
    for size_b in (2 << 20, (2 << 20) + 1):
        with pytest.raises(InputError, match="larger than allowed: 2 MiB"):
            make_zip({"a": bytes(size_b)})


def test_the_manifest_lists_all_files_and_no_others() -> None:
    sound = with_manifest(FILES)
    lines = sound[MANIFEST].splitlines(keepends=True)
    for files in (
        FILES,
        {**sound, "more": b""},
        {name: sound[name] for name in sound if name != "a.json"},
        {**sound, "a.json": b"[]"},
        {**sound, MANIFEST: sound[MANIFEST].replace(b"\n", b"\r\n")},
        {**sound, MANIFEST: b"".join(reversed(lines))},
    ):
        with pytest.raises(InputError, match=f"^{MANIFEST}: does not list these files"):
            read_zip(make_zip(files))


# Signatures by OpenSSH.


TEXT = b"00  a\n"


def test_only_a_valid_signature_of_an_allowed_signer_names_the_signer(key: Path) -> None:
    genuine, allowed = sign(TEXT, key), key.with_name("allowed")
    assert signer_of(TEXT, genuine, allowed) == "ann@site"
    # A signature for another purpose or of another manifest is not accepted.
    command = ["ssh-keygen", "-Y", "sign", "-q", "-n", "file", "-f", str(key)]
    other = subprocess.run(command, input=TEXT, capture_output=True, check=True).stdout
    for text, signature in (
        (TEXT, other), (TEXT + b"\n", genuine), (TEXT, b""), (TEXT, genuine[: len(genuine) // 2])
    ):  # fmt: skip
        assert signer_of(text, signature, allowed) is None
    allowed.write_text("")
    assert signer_of(TEXT, genuine, allowed) is None


def test_an_invalid_key_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    file.write_text("no key")
    file.chmod(0o600)
    with pytest.raises(InputError, match=f"--sign: {file}: exit status"):
        sign(TEXT, file)
    monkeypatch.setattr("nimc.crate.archive.find_program", lambda _: None)
    with pytest.raises(MachineError, match=r"^ssh-keygen: not found"):
        sign(TEXT, file)
