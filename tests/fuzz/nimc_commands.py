"""The commands of nimc that are tried with damaged inputs, and the valid inputs of each.

Commands that would build, reserve or start something are left out. `run` is included: its ReFrame
is replaced by a program that ends at once.
"""

import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path

from analysis.contention import evaluate
from analysis.contention.sweep import Point
from analysis.report.data import load_run
from analysis.report.page import write_data
from nimc.crate.archive import MANIFEST, make_zip, manifest
from nimc.crate.metadata import METADATA_FILE
from nimc.crate.pack import run_files
from records.errors import InputError
from records.run import load_header
from testbed.spec import CHECKOUT
from tests.captures import RUN_QUICK
from tests.fuzz.target import RUN_FILES, Target, in_file, joined_files, lay_out
from tests.in_process import call
from tests.nimc.nights.made import SUMMARY

#: Documented exit statuses: done (0), a negative answer of the measurement (1), wrong input (2), a
#: failure (3), and a pipe that nobody reads (141).
_EXITS = (0, 1, 2, 3, 141)
#: Largest number of lines of an error message. A message about a campaign has a line for each fault
#: of the campaign.
_MOST_LINES = 60
#: Largest length of a line of an error message, characters.
_LONGEST_LINE = 2000
#: Campaigns that this host can run.
_CAMPAIGNS = [
    (CHECKOUT / "campaigns" / f"{name}.yaml").read_bytes()
    for name in ("quick", "single_node", "contention_emulated")
]
_MODEL = json.dumps(evaluate.load_published(evaluate.published_names()[0]).as_dict()).encode()
_RATES = [(5e9, 4e9, 5e9, 4e9), (1e10, 4e9, 9e9, 3.5e9), (1.4e10, 4e9, 1.1e10, 3e9)]
_RATE_NAMES = ("comp_alone_b_s", "comm_alone_b_s", "comp_par_b_s", "comm_par_b_s")
_POINTS = [
    asdict(Point(n=cores, comp_node=0, comm_node=0, **dict(zip(_RATE_NAMES, rates, strict=True))))
    for cores, rates in enumerate(_RATES, 1)
]
_SWEEP = json.dumps({"schema": 1, "points": _POINTS}).encode()
#: Command lines with one word on each line. Those of simulations are small, since damage may make
#: their size much larger.
_LINES = [
    b"writers\n--ranks\n64,512\n--mtti\n5y\n--write\n46k messages of 64KiB at 3.2GB/s\n--json",
    b"simulate\n--ranks\n16,32\n--worst\n1.5\n--writers\n0.2%",
    b"model\npredict\n--platform\nhenri\n--comp-node\n0\n--comm-node\n1\n--json",
    b"plan\nquick.yaml\n--machine\nlocalhost\n--json",
    b"run\nquick.yaml\n--machine\nexample_slurm\n--results\nresults\n--fresh",
    b"doctor\n--machine\nexample_slurm\n--in-job\n--wait\n1s\n--json",
    b"init\nnew_machine\n--no-job\n--wait\n1min",
    b"remedy\nshow\nirq_affinity\n--set\ndevice=mlx5_0\n--set\ncpus=0-3,8\n--json",
    b"nights\nrun\nquick.yaml\n--machine\nnowhere\n--until\n05:00\n--tell\ncat",
    b"advise\nnothing\n--traffic-share\n0.2\n--json",
    b"compare\nnothing\nnothing\n--reference\nnothing\n--fail",
]
#: A damaged command line with one of these words is not called, since it could change this host.
_NEVER = {"create", "remove", "up", "down", "build", "setup", "mirror", "--debug", "--install"}
_NEVER |= {"--yes"}


#: Function that writes a damaged text to a folder, and returns the words of the command that reads
#: it. The folder is the command's current folder, and is used for this input only.
Words = Callable[[bytes, Path], list[str]]


class Refused(Exception):
    """nimc ended with exit status 2 or 3, and printed why."""


def faults(status: int, out: str, err: str) -> Iterator[str]:
    """Yield a text for each fault in how nimc ended and in what it printed."""
    if status not in _EXITS:
        yield f"exit {status}"
    lines = err.splitlines()
    if status in (2, 3) and not lines and not out:  # a command may print a state to `out` instead
        yield f"exit {status} without a line"
    if len(lines) > _MOST_LINES or any(len(line) > _LONGEST_LINE for line in lines):
        yield f"{len(lines)} lines, the longest of {max(map(len, lines))} characters"
    yield from (f"says {word!r}" for word in ("Traceback", "unexpectedly") if word in err)
    if not all(line.isprintable() for line in err.split("\n")):
        yield "says something unprintable"


def command(name: str, seeds: Callable[[], Sequence[bytes]], words: Words) -> Target:
    """Return the row of a command.

    `words` makes the command's files and its words from a damaged text and a folder.
    """

    def read(text: bytes, folder: Path) -> None:
        called = words(text, folder)
        status, out, err = call(called, folder, {"NIMC_REFRAME": "/bin/true"})
        wrong = [*faults(status, out, err)]
        assert not wrong, f"nimc {called!r}: {'; '.join(wrong)}: {err[-600:]!r}"
        if status in (2, 3):
            raise Refused(f"exit {status}")

    return Target(name=name, read=read, seeds=seeds, allowed=(Refused,), cpu_s=10.0, wait_s=120.0)


def _run(*start: str) -> Words:
    def words(text: bytes, folder: Path) -> list[str]:
        lay_out(text, folder / "run", RUN_FILES)
        return [*start, *(["run"] * (2 if "compare" in start else 1))]

    return words


def _file(name: str, *called: str) -> Words:
    def words(text: bytes, folder: Path) -> list[str]:
        in_file(name, text, folder)
        return [*called]

    return words


def _crate(text: bytes, folder: Path) -> list[str]:
    """Write a crate with a damaged run and a matching manifest; return the words that verify it."""
    lay_out(text, folder / "run", RUN_FILES)
    in_file("c.zip", crate(folder / "run"), folder)
    return ["verify", "c.zip", "--json"]


def crate(run: Path) -> bytes:
    """Return the smallest crate (archive of a run) that `nimc verify` can check."""
    files = {**run_files(run), METADATA_FILE: b'{"@graph": []}'}
    with suppress(InputError):
        files["campaign.yaml"] = load_header(run).campaign_text.encode()
    return make_zip({**files, MANIFEST: manifest(files)})


def _line(text: bytes, _: Path) -> list[str]:
    words = text.replace(b"\0", b"").decode(errors="surrogateescape").split("\n")[:40]
    return ["-h"] if _NEVER.intersection(words) else words


@cache
def _table() -> bytes:
    """Return the bytes of a run's table of results."""
    folder = Path(tempfile.mkdtemp())
    try:
        write_data(folder, [load_run(RUN_QUICK)])
        return (folder / "results.parquet").read_bytes()
    finally:
        shutil.rmtree(folder)


_RESULTS = "results/run/report/results.parquet"
_DAY = "small-m1-2026-11-20.json"
#: Each row has a path that a command reads or writes, and the words of the command. An obstacle is
#: put at this path.
_PLACES: list[tuple[str, tuple[str, ...]]] = [
    ("run/logs/stream/0/job.json", ("report", "run")),
    ("run/report/results.json", ("report", "run")),
    ("run/report/report.html", ("report", "run")),
    ("run/report", ("report", "run")),
    ("run/run.json", ("report", "run", "--output", "out")),
    ("run/counters/stream.jsonl", ("advise", "run")),
    ("run/provenance", ("verify", "run")),
    (f"results/nights/{_DAY}", ("nights", "list")),
    ("out", ("report", "run", "--output", "out")),
    ("out", ("compare", "run", "run", "--output", "out")),
    ("m.json", ("model", "fit", "s.csv", "--output", "m.json")),
    ("pages", ("nights", "pages", "--output", "pages")),
    ("results/pages/index.json", ("nights", "pages")),
    (_RESULTS, ("nights", "alarms")),
    ("results/run/run.json", ("runs",)),
]
_OBSTACLES: list[Callable[[Path], None]] = [
    os.mkfifo,
    os.mkdir,
    lambda path: path.symlink_to("nowhere"),
    lambda path: path.symlink_to(path.name),
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to("/dev/full"),
    lambda path: path.write_bytes(b""),
]
#: Each obstacle at each path.
OBSTRUCTED = [(target, obstacle) for target in _PLACES for obstacle in _OBSTACLES]


def in_the_way(number: int, folder: Path) -> list[str]:
    """Put obstacle `number` of `OBSTRUCTED` at its path; return the words of its command."""
    shutil.copytree(RUN_QUICK, folder / "run")
    in_file("s.json", _SWEEP, folder)
    in_file(_RESULTS, _table(), folder)
    (name, words), obstruct = OBSTRUCTED[number]
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    obstruct(path)
    return list(words)


def _in_the_way(text: bytes, folder: Path) -> list[str]:
    return in_the_way(zlib.crc32(text) % len(OBSTRUCTED), folder)


def _seeds(*texts: bytes) -> Callable[[], Sequence[bytes]]:
    return lambda: texts


_RUN_FILES_TEXT = _seeds(joined_files(RUN_FILES))
_HERE = ("--machine", "localhost")
_COMMANDS = [
    *(
        command(f"campaign, {name}", _seeds(*_CAMPAIGNS), _file("c.yaml", name, "c.yaml", *_HERE))
        for name in ("plan", "run")
    ),
    *(
        command(f"run folder, {words}", _RUN_FILES_TEXT, _run(*words.split()))
        for words in (
            "report",
            "report --force",
            "compare --json",
            "advise",
            "advise --force --json",
            "verify --json",
        )
    ),
    command("run folder in a crate, verify", _RUN_FILES_TEXT, _crate),
    command("crate, verify", lambda: [crate(RUN_QUICK)], _file("c.zip", "verify", "c.zip")),
    *(
        command(f"sweep, {name}", _seeds(_SWEEP), _file("s.json", "model", name, "s.json"))
        for name in ("fit", "evaluate")
    ),
    command("model", _seeds(_MODEL), _file("m.json", "model", "predict", "--model", "m.json")),
    command(
        "summary", _seeds(SUMMARY.text.encode()), _file(f"results/nights/{_DAY}", "nights", "list")
    ),
    *(
        command(f"results, {name}", lambda: [_table()], _file(_RESULTS, "nights", name))
        for name in ("alarms", "pages")
    ),
    command("pipes, links and devices", _seeds(bytes(range(64))), _in_the_way),
    command("command line", _seeds(*_LINES), _line),
]

#: Name -> the command with this name.
TARGETS = {target.name: target for target in _COMMANDS}
