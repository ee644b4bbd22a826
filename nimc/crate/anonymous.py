"""Pseudonyms for hosts and users in all files of a run, with its chain recomputed. Pure.

Hosts are numbered in order of appearance: those that records name, and Slurm's lists of them. Users
are the owner of the run and the names of folders in `/home`. They are replaced wherever they stand
as a word, also in the application's output, but for counters, which name nobody. Names that only
the output has are not known: read it.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

from nimc.base.errors import InputError
from nimc.base.json_limits import parsed
from nimc.crate.zipped import Files
from nimc.records import chain
from nimc.records.run import digest_of

_HOME = re.compile(rb"/home/([A-Za-z0-9_][A-Za-z0-9_.-]*)")
_DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_MARK = b',"chain":'
#: No host in particular: the target of a timetable, and what every host calls itself.
_NOBODY = ("", "*", "localhost")

Rename = Callable[[bytes], bytes]


def renamed(files: Files, owner: str) -> dict[str, bytes]:
    """The files of a run (`contents.run_files`) with pseudonyms; `owner`: its user's name.

    What is named by its SHA-256 gets its new one, and the chains begin and end anew. Raises
    InputError for a host that has the name of its machine: that is part of the run's name.
    """
    texts = {name: _text(name, content) for name, content in files.items()}
    rename = _renaming(texts, owner)
    made, digests = dict[str, bytes](), dict[bytes, bytes]()
    # Samples name the digests of the others.
    for name in sorted(texts, key=lambda name: name.startswith("samples/")):
        text = new = texts[name]
        if name.startswith("samples/"):
            new = _DIGEST.sub(lambda found: digests.get(found[0], found[0]), rename(text))
        elif not name.startswith("counters/"):
            new = rename(text)
            digests[chain.digest(text).encode()] = chain.digest(new).encode()
        if name.startswith("provenance/"):
            name = f"provenance/{chain.digest(new)}.json"
        made[name] = gzip.compress(new, mtime=0) if name.endswith(".gz") else new
    return _chained(made)


def _text(name: str, content: bytes) -> bytes:
    return gzip.decompress(content) if name.endswith(".gz") else content


def _lines(text: bytes) -> list[bytes]:
    """The whole lines: one that a crash cut off is left out."""
    return [line for line in text.splitlines(keepends=True) if line.endswith(b"\n")]


def _chained(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files with what follows from the names in them computed anew: digest, chains and head."""
    header = _redigested(_record(files["run.json"]))
    begun = chain.header_digest(header)
    last = dict[str, str]()
    for name in [name for name in files if name.startswith("samples/")]:
        case, lines = PurePath(name).stem, list[bytes]()
        for line in _lines(files[name]):
            content, mark, _ = line.rpartition(_MARK)
            if mark:
                last[case] = chain.link(last.get(case) or chain.genesis(begun, case), content)
                line = content + _MARK + b'"' + last[case].encode() + b'"}\n'
            lines.append(line)
        files[name] = b"".join(lines)
    if header.get("head"):
        header["head"] = chain.head(begun, last)
    files["run.json"] = (json.dumps(header, indent=2) + "\n").encode()
    return files


def _redigested(header: dict[str, Any]) -> dict[str, Any]:
    """The header with the digest of what was asked; its order stays that of the old digest."""
    resolved = header.get("resolved")
    if resolved and (digest := digest_of(resolved)) != header["digest"]:
        old = {"run": header["run"], "digest": header["digest"]}
        header |= {"reproduces": header.get("reproduces") or old, "digest": digest}
    return header


# Which names there are, and where they stand in a text.


def _renaming(texts: Files, owner: str) -> Rename:
    hosts = list(dict.fromkeys(name for name in _hosts(texts) if name not in _NOBODY))
    machine = _record(texts["run.json"]).get("machine")
    if machine in hosts:
        raise InputError(
            f"--anonymous: the host {machine!r} has the name of its machine, which is part of the"
            " run's name; allowed: machines that are named otherwise"
        )
    homes = [name.decode() for text in texts.values() for name in _HOME.findall(text)]
    users = [name for name in dict.fromkeys([owner, *homes]) if name not in hosts]
    pseudonyms = {name.lower(): f"user-{i}" for i, name in enumerate(users, 1)}
    pseudonyms |= {name.lower(): f"host-{i}" for i, name in enumerate(hosts, 1)}
    lists = set[str]()
    for name in map(str.lower, hosts):
        short = name.partition(".")[0]
        if not short.isdigit():  # as that of an address
            pseudonyms.setdefault(short, pseudonyms[name])
            lists.add(re.escape(short.rstrip("0123456789")) + r"\[[0-9,-]+\]")
    words = [*sorted(lists), *map(re.escape, sorted(pseudonyms, key=len, reverse=True))]
    # A letter before the name may be the end of an escaped line break in JSON.
    pattern = rf"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt]))(?:{'|'.join(words)})(?![A-Za-z0-9])"
    found = re.compile(pattern.encode(), re.IGNORECASE)
    return lambda text: found.sub(
        lambda name: pseudonyms.get(name[0].decode().lower(), "hosts").encode(), text
    )


def _hosts(texts: Files) -> Iterator[str]:
    header = _record(texts["run.json"])
    yield str(header["facts"].get("host", {}).get("hostname", ""))
    for name in sorted(texts, key=lambda name: not name.startswith("samples/")):
        text = texts[name]
        if name.startswith("samples/"):
            for line in _lines(text):
                sample = _record(line)
                yield from (*sample["nodes"], *sample["origin_nodes"])
                for writer in sample["writers"]:
                    yield from (writer["origin"], writer["target"])
        elif name.startswith("provenance/") or name.endswith("/job.json"):
            yield from map(str, _record(text).get("nodes") or ())


def _record(text: bytes) -> dict[str, Any]:
    found = parsed(text, "--anonymous")
    if not isinstance(found, dict):
        raise InputError("--anonymous: a record of the run is no object")
    return found
