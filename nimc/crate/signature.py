"""The signature of a crate's manifest, made and checked by OpenSSH (`ssh-keygen -Y`)."""

from __future__ import annotations

import base64
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from nimc.base.errors import InputError, MachineError
from nimc.base.programs import ProgramAnswer, ask, which

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
    answer = _ssh_keygen("sign", "-f", str(key), text=manifest.decode())
    if not answer.ok:
        raise InputError(f"--sign: {key}: {answer.reason}")
    return answer.stdout.encode()


def check(manifest: bytes, signature: bytes, allowed: Path | None) -> Signed:
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
    named = ("-s", signature, "-f", str(allowed))
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
