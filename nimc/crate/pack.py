"""Packs a run as a crate: one zip with everything that it takes to cite, verify and repeat it."""

from __future__ import annotations

import gzip
import json
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any

from analysis.report.data import load_run
from analysis.report.page import make_reports
from nimc.base.checkout import git
from nimc.base.errors import InputError
from nimc.base.files import read_regular, replace, user_name
from nimc.base.json_limits import parsed
from nimc.crate.metadata import About, descriptions
from nimc.crate.zipped import LARGEST_B, MANIFEST, SIGNATURE, Files, manifest, sign, zipped
from nimc.records import chain
from nimc.records.run import RunHeader, digest_of, load_header
from nimc.records.run_folder import distrust_run
from nimc.run.verify import verify

#: Files of a run's folder that go into its crate. Not: output of writers and of ReFrame.
_OF_A_RUN = (
    "run.json",
    "checks/*.py",  # of earlier versions
    "samples/*.jsonl",
    "counters/*.jsonl",
    "provenance/*.json",
    "logs/*/*/block.json",
    "logs/*/*/job.json",
    "logs/*/*/alone.json",
    "logs/*/*/length.json",
    "logs/*/*/*.out",
    "logs/*/*/*.gz",
    "logs/*/*/reframe/**/spack.lock",
)
#: Folders of the crate for the run and for its report.
RUN, REPORT = "run", "report"
_REPORTED = ("report.html", "results.json")


def run_files(run: Path) -> dict[str, bytes]:
    """The files of a run's folder that are packed, by their names in it.

    Raises InputError for links and for what is no regular file.
    """
    paths = sorted({path for pattern in _OF_A_RUN for path in run.glob(pattern)})
    return {str(path.relative_to(run)): read_regular(path, LARGEST_B) for path in paths}


def python_locks(commit: str | None) -> dict[str, bytes]:
    """The locks of the Python packages at a commit; none if this checkout does not have it."""
    at = (commit or "").removesuffix("+")
    if not at.isalnum():
        return {}
    names = git("ls-tree", "--name-only", at, "requirements/").stdout.split()
    texts = {Path(name).name: git("show", f"{at}:{name}") for name in names}
    return {name: text.stdout.encode() for name, text in texts.items() if text.ok}


def written(files: Files, folder: Path) -> Path:
    """Write the files of a run below `folder`, in a new folder of the run's own name.

    `folder` is a temporary one that nobody else can reach, and need not outlive a crash: the files
    are not written as those of a run are (`nimc.base.files`), which takes a flush for each.
    """
    for name, content in files.items():
        path = folder / "run" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return (folder / "run").rename(folder / load_header(folder / "run").run)


def report_files(run: Path) -> dict[str, bytes]:
    """Page and results of the run in a folder of its own (`written`), on which alone they depend.

    Raises InputError if the run has integrity faults.
    """
    with TemporaryDirectory() as folder:
        make_reports([run], Path(folder))
        return {name: Path(folder, name).read_bytes() for name in _REPORTED}


def header_files(header: RunHeader) -> dict[str, bytes]:
    """Campaign and machine as files of their own."""
    site = json.dumps(header.facts.get("site"), indent=1)
    return {"campaign.yaml": header.campaign_text.encode(), "machine.json": f"{site}\n".encode()}


def inside(files: Files, folder: str) -> dict[str, bytes]:
    """The files below a folder of the crate, by their names in it."""
    start = f"{folder}/"
    return {name.removeprefix(start): files[name] for name in files if name.startswith(start)}


def below(folder: str, files: Files) -> dict[str, bytes]:
    """The files as they are named below a folder of the crate."""
    return {f"{folder}/{name}": content for name, content in files.items()}


# Packed.


@dataclass(frozen=True)
class Packed:
    """A crate that was written."""

    crate: str
    size_b: int
    files: int
    #: SHA-256 of the manifest, which covers all other files.
    manifest_sha256: str
    #: Head of the chain in the crate; None if its samples are in no chain.
    head: str | None
    #: With pseudonyms: who has it and the original run can show that the crate was made of it.
    salt: str | None


def pack(
    run: Path,
    crate: Path,
    *,
    license: str,
    authors: Sequence[str],
    key: Path | None = None,
    anonymous: bool = False,
) -> Packed:
    """Write the crate of a run; the same run gives the same bytes, but for a salt.

    Raises InputError for a run that is another user's or does not verify.
    """
    if reason := distrust_run(run):
        raise InputError(f"{run}: {reason}; allowed: your own run")
    if not (found := verify(run)).is_sound:
        raise InputError(*(each.text for each in found.findings if each.kind != "unproven"))
    loaded = load_run(run)
    files, salt, original = run_files(run), None, None
    if anonymous:
        files = renamed(files, user_name(run.lstat().st_uid))
        if loaded.integrity.head:
            salt = secrets.token_hex(32)
            original = commitment(salt, loaded.integrity.head)
    with TemporaryDirectory() as folder:
        copy = written(files, Path(folder))
        packed, report = load_run(copy), report_files(copy)
    header, head = packed.header, packed.integrity.head
    made = {
        **below(RUN, files),
        **below(REPORT, report),
        **below("locks", python_locks(header.commit)),
        **header_files(header),
    }
    about = About(license, authors, head, loaded.earlier(), anonymous, original)
    made |= descriptions(header, about, made)
    made[MANIFEST] = manifest(made)
    if key:
        made[SIGNATURE] = sign(made[MANIFEST], key)
    raw = zipped(made)
    replace(crate, raw)
    return Packed(str(crate), len(raw), len(made), chain.digest(made[MANIFEST]), head, salt)


def commitment(salt: str, head: str) -> str:
    """What binds a crate with pseudonyms to the head of the original, without showing it.

    A head alone could be used to find out whether guessed names are the right ones.
    """
    return chain.digest(f"{salt}{head}".encode())


# Pseudonyms for hosts and users in all files of a run, with its chain recomputed.
#
# Hosts are numbered in order of appearance: those that records name, and Slurm's lists of them.
# Users are the owner of the run and the names of folders in `/home`. They are replaced wherever
# they stand as a word, also in the application's output, but for counters, which name nobody. Names
# that only the output has are not known: read it.

_HOME = re.compile(rb"/home/([A-Za-z0-9_][A-Za-z0-9_.-]*)")
_DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
#: No host in particular: the target of a timetable, and what every host calls itself.
_NOBODY = ("", "*", "localhost")

Rename = Callable[[bytes], bytes]


def renamed(files: Files, owner: str) -> dict[str, bytes]:
    """The files of a run (`run_files`) with pseudonyms; `owner`: its user's name.

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
            content, mark, _ = line.rpartition(chain.MARK)
            if mark:
                before = last.get(case) or chain.genesis(begun, case)
                line, last[case] = chain.linked(content, before)
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
