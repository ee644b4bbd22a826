"""Signatures by OpenSSH: who signed, and that nothing else passes."""

import subprocess
from pathlib import Path

import pytest

from nimc.base.errors import InputError
from nimc.crate.zipped import check_signature, sign

TEXT = b"00  a\n"


def test_a_signature_names_its_key_and_the_signer_who_is_allowed(key: Path) -> None:
    made = sign(TEXT, key)
    shown = subprocess.run(
        ["ssh-keygen", "-l", "-f", f"{key}.pub"], capture_output=True, text=True, check=True
    )
    fingerprint = shown.stdout.split()[1]
    assert check_signature(TEXT, made, None).key == f"ED25519 {fingerprint}"
    assert check_signature(TEXT, made, None).signer is None
    assert check_signature(TEXT, made, key.with_name("allowed")).signer == "ann@site"
    nobody = key.with_name("nobody")
    nobody.write_text("")
    assert check_signature(TEXT, made, nobody).signer is None
    # One for another purpose is not accepted.
    command = ["ssh-keygen", "-Y", "sign", "-q", "-n", "file", "-f", str(key)]
    other = subprocess.run(command, input=TEXT, capture_output=True, check=True).stdout
    with pytest.raises(InputError, match="is not valid"):
        check_signature(TEXT, other, None)


def test_a_change_of_any_byte_is_found(key: Path) -> None:
    made = sign(TEXT, key)
    for position in range(0, len(made), 11):
        edited = bytearray(made)
        edited[position] ^= 0x80 if position % 2 else 1
        with pytest.raises(InputError):
            check_signature(TEXT, bytes(edited), None)
    for other in (made + b"\n", b"\n" + made, made.replace(b"\n", b"\n\n", 1), b""):
        with pytest.raises(InputError):
            check_signature(TEXT, other, None)
    with pytest.raises(InputError):
        check_signature(TEXT + b"\n", made, None)


def test_what_is_no_key_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("no key")
    file.chmod(0o600)
    with pytest.raises(InputError, match=f"--sign: {file}: exit status"):
        sign(TEXT, file)
