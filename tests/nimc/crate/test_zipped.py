"""The zip of a crate: the same bytes for the same files, and nothing else is unpacked."""

import io
import random
import stat
import subprocess
import zipfile
from pathlib import Path

import pytest

from nimc.crate.zipped import MANIFEST, manifest, sign, signer_of, unzipped, zipped
from records.errors import InputError, MachineError

FILES = {"b/c.txt": b"two\n", "a.json": b"{}", "b/stream@rate=25%.jsonl": b"1\n2\n", "é": b""}


def listed(files: dict[str, bytes]) -> dict[str, bytes]:
    return {**files, MANIFEST: manifest(files)}


def test_other_programs_read_a_zip_whose_bytes_depend_on_its_files_alone(tmp_path: Path) -> None:
    files = listed(FILES)
    made = zipped(files)
    assert zipped(dict(reversed(files.items()))) == made
    assert unzipped(made) == files
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        archive.extractall(tmp_path)
    command = ["sha256sum", "--strict", "-c", MANIFEST]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.count(": OK\n") == len(FILES)


def test_a_change_of_any_byte_is_found() -> None:
    made = zipped(listed(FILES))
    chance = random.Random(7)
    for position in range(len(made)):
        edited = bytearray(made)
        edited[position] ^= chance.randrange(1, 256)
        with pytest.raises(InputError):
            unzipped(bytes(edited))


def other(name: str = "a", *, mode: int = stat.S_IFREG | 0o644, method: int = 0) -> bytes:
    """A zip as other programs may make it."""
    out = io.BytesIO()
    entry = zipfile.ZipInfo(name)
    entry.external_attr, entry.create_system, entry.compress_type = mode << 16, 3, method
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(entry, b"0" * 100_000)
    return out.getvalue()


def compressed_badly() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a", bytes(range(100)))
    raw = bytearray(out.getvalue())
    raw[40:72] = bytes(32)  # its header and name have 31 bytes, its LZMA properties 9
    return bytes(raw)


def twice() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a", b"2")
    return out.getvalue()


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (other("../a"), "plain names"),
        (other("/etc/a"), "plain names"),
        (other("a\\b"), "plain names"),
        (other("a\nb"), "plain names"),
        (other(mode=stat.S_IFLNK | 0o777), "headers were changed"),
        (other(method=zipfile.ZIP_DEFLATED), "larger than the zip"),
        (compressed_badly(), "damaged"),
        (twice(), "headers were changed"),
        (b"\0" + zipped(FILES), "headers were changed"),
        (zipped(FILES) + b"\0", "headers were changed"),
        (b"", "no zip"),
    ],
)
def test_what_pack_does_not_make_is_not_unpacked(raw: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        unzipped(raw)


def test_a_crate_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = bytearray(zipped({"a": b"1"}))
    at = raw.index(b"PK\1\2")
    raw[at + 20 : at + 28] = b"\xf0\xff\xff\xff" * 2  # 4 GB, as its directory claims
    with pytest.raises(InputError):
        unzipped(bytes(raw))
    monkeypatch.setattr("nimc.crate.zipped.LARGEST_B", 2 << 20)
    zipped({"a": bytes(2 << 20)})
    with pytest.raises(InputError, match="larger than allowed: 2 MiB"):
        zipped({"a": bytes(2 << 20), "b": b"1"})


def test_the_manifest_lists_all_files_and_no_others() -> None:
    sound = listed(FILES)
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
            unzipped(zipped(files))


# Signatures by OpenSSH: who signed, and that nothing else passes.


TEXT = b"00  a\n"


def test_a_signature_names_the_signer_who_is_allowed(key: Path) -> None:
    made, allowed = sign(TEXT, key), key.with_name("allowed")
    assert signer_of(TEXT, made, allowed) == "ann@site"
    # One for another purpose, or of another manifest, is not accepted.
    command = ["ssh-keygen", "-Y", "sign", "-q", "-n", "file", "-f", str(key)]
    other = subprocess.run(command, input=TEXT, capture_output=True, check=True).stdout
    for text, signature in (
        (TEXT, other), (TEXT + b"\n", made), (TEXT, b""), (TEXT, made[: len(made) // 2])
    ):  # fmt: skip
        assert signer_of(text, signature, allowed) is None
    allowed.write_text("")
    assert signer_of(TEXT, made, allowed) is None


def test_what_is_no_key_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "key"
    file.write_text("no key")
    file.chmod(0o600)
    with pytest.raises(InputError, match=f"--sign: {file}: exit status"):
        sign(TEXT, file)
    monkeypatch.setattr("nimc.crate.zipped.which", lambda _: None)
    with pytest.raises(MachineError, match=r"^ssh-keygen: not found"):
        sign(TEXT, file)
