"""The chain over a run's samples, which shows that none of them was changed afterwards.

The last field of each line of `samples/CASE.jsonl` is `"chain":"VALUE"`. The value is the SHA-256
of two texts: the previous line's value as hexadecimal text, then the bytes of this line up to
`,"chain":`. The first line has no previous line: `genesis` takes the place of its value. A sample
states the SHA-256 of its provenance, counters and logs, so its value covers them too. The head of a
run is a digest that covers the last value of every case.

Files are verified as bytes, without being parsed. This module uses only the standard library,
because the conductor writes samples on compute nodes that have nothing else.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Fields of `run.json` that are set after the first sample. The chain cannot cover them.
_FIELDS_SET_LATER = ("finished_s", "head", "pairs_raised")
#: The beginning of the last field of a line, before its value.
VALUE_FIELD_START = b',"chain":'
_PIECE_B = 1 << 20
_VALUE = re.compile(rb'"([0-9a-f]{64})"\}')


def digest(content: bytes) -> str:
    """Return the SHA-256 of `content` as hexadecimal text."""
    return hashlib.sha256(content).hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, which may be larger than memory."""
    sha256 = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_B):
            sha256.update(piece)
    return sha256.hexdigest()


def link(previous_value: str, content: bytes) -> str:
    """Return the chain's value at a line with `content`, after a line with `previous_value`."""
    return digest(previous_value.encode() + content)


def header_digest(header: Mapping[str, Any] | None) -> str:
    """Return the SHA-256 of a run's header as it was when the run began; empty if there is none.

    The header is hashed as JSON with sorted keys and without blanks, in ASCII.
    """
    if header is None:
        return ""
    original = {name: value for name, value in header.items() if name not in _FIELDS_SET_LATER}
    return digest(json.dumps(original, sort_keys=True, separators=(",", ":")).encode())


def genesis(header_sha256: str, case: str) -> str:
    """Return the value before the first sample of a case: a digest of header and case."""
    return link(header_sha256, case.encode())


def head(header_sha256: str, last_values: Mapping[str, str]) -> str:
    """Return the head of a run; `last_values`: each case with samples -> value of its last sample.

    The head is the SHA-256 of these lines: the digest of the header, then `CASE VALUE` of each
    case, sorted by case.
    """
    lines = [header_sha256]
    lines += [f"{case} {value}" for case, value in sorted(last_values.items())]
    return digest("".join(f"{line}\n" for line in lines).encode())


def chained_line(record: Mapping[str, Any], previous_value: str) -> tuple[bytes, str]:
    """Return the line of a record after a line with `previous_value`, and the value of this line.

    Raises ValueError for a figure that is not finite.
    """
    content = json.dumps(record, separators=(",", ":"), allow_nan=False).encode()[:-1]
    value = link(previous_value, content)
    return content + VALUE_FIELD_START + b'"' + value.encode() + b'"}\n', value


@dataclass(frozen=True)
class FileChain:
    """The findings of a walk along the chain of one file."""

    #: Number of complete lines.
    line_count: int
    #: Value of the last complete line; without lines, the value before the first line.
    last_value: str
    #: Numbers (from 1) of the lines whose value does not result from line and previous value.
    broken_lines: tuple[int, ...]


def walk(path: Path, first_value: str) -> FileChain:
    """Walk along the chain of a file; `first_value` is the value before its first line.

    After a broken line the walk continues with the value that the line states. So a changed line
    breaks only its own link, and a removed line only that of the next line. A last line
    without a newline, which a crash leaves, is ignored.
    """
    last_value = first_value.encode()
    line_count = 0
    broken_lines = []
    with path.open("rb", buffering=_PIECE_B) as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            line_count += 1
            content, _, end = line[:-1].rpartition(VALUE_FIELD_START)
            value = digest(last_value + content).encode()
            if end != b'"%b"}' % value:
                broken_lines.append(line_count)
                stated = _VALUE.fullmatch(end)
                value = stated[1] if stated else last_value
            last_value = value
    return FileChain(line_count, last_value.decode(), tuple(broken_lines))


@dataclass(frozen=True)
class RunChain:
    """The chains of all cases of a run."""

    head: str
    #: File of a case's samples -> the findings along its chain.
    file_chains: dict[Path, FileChain]


def header_of(run: Path) -> dict[str, Any] | None:
    """Return the content of `run.json`; None if there is no such file, as after `reframe -r`."""
    try:
        header: dict[str, Any] = json.loads((run / "run.json").read_bytes())
    except FileNotFoundError:
        return None
    return header


def walk_run(run: Path) -> RunChain:
    """Walk along the chains of all cases of the run in folder `run`."""
    header_sha256 = header_digest(header_of(run))
    paths = sorted((run / "samples").glob("*.jsonl"))
    file_chains = {path: walk(path, genesis(header_sha256, path.stem)) for path in paths}
    last_values = {
        path.stem: file_chain.last_value
        for path, file_chain in file_chains.items()
        if file_chain.line_count
    }
    return RunChain(head(header_sha256, last_values), file_chains)
