"""Kinds of bad input: what is damaged, and the command that is given it.

A text is damaged by `tests.fuzz.mutate`. Commands that would build, book or start something are
not among them; `run` gets a ReFrame that ends at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.contention import published
from campaigns.minicluster.layout import CHECKOUT
from tests.fuzz.target import CAPTURES, in_file, lay_out, tree

_QUICK = CAPTURES / "schema_1" / "quick"
_RUN = {
    str(path.relative_to(_QUICK)): path.read_text()
    for path in sorted(_QUICK.rglob("*.json*"))
    if path.name not in ("results.json", "lammps.jsonl")
}
#: Those that this host could run.
_CAMPAIGNS = [
    (CHECKOUT / "campaigns" / f"{name}.yaml").read_bytes()
    for name in ("quick", "single_node", "contention_emulated")
]
_MODEL = json.dumps(published.load(published.names()[0]).as_dict()).encode()
_SWEEP = (
    b"n,comp_node,comm_node,comp_alone_b_s,comm_alone_b_s,comp_par_b_s,comm_par_b_s\n"
    b"1,0,0,5e9,4e9,5e9,4e9\n2,0,0,1e10,4e9,9e9,3500000000\n3,0,0,1.4e10,4e9,1.1e10,3e9\n"
)
#: Command lines, a word each line. Those that simulate are small: their size is what is damaged.
_LINES = [
    b"writers\n--nodes\n64,512\n--mtti\n5y\n--write\n1s\n--json",
    b"writers\n--nodes\n8\n--write\n46k messages of 64KiB at 3.2GB/s",
    b"simulate\n--ranks\n64\n--worst\n2\n--steps\n20\n--noise\nnone\n--seed\n3\n--json",
    b"simulate\n--ranks\n16,32\n--worst\n1.5\n--mean\n1.2\n--writers\n0.2%\n--step\n25ms\n--open",
    b"model\npredict\n--platform\nhenri\n--comp-node\n0\n--comm-node\n1\n--json",
    b"model\nrecommend\n--platform\nhenri\n--per-core\n3GB/s\n--traffic\n10GB/s\n--cores\n8",
    b"plan\nquick.yaml\n--machine\nlocalhost\n--json",
    b"doctor\n--machine\nnowhere\n--json",
    b"report\nnothing\n--output\nout\n--force",
    b"compare\nnothing\nnothing\n--reference\nnothing\n--fail",
    b"run\nquick.yaml\n--machine\nexample_slurm\n--results\nresults\n--fresh",
    b"origins\nshow\n--machine\nlocalhost",
    b"minicluster\nstatus\n--json",
    b"--debug\nwriters\n-h",
]
#: Words of a damaged command line that are refused before it is called: it could do something.
_NEVER = {"init", "create", "remove", "up", "down", "build", "setup", "mirror", "--debug"}


@dataclass(frozen=True)
class Kind:
    """One kind of bad input."""

    name: str
    seeds: Sequence[bytes]
    #: Damaged text, and a folder of its own, which is the current one -> words of the command.
    command: Callable[[bytes, Path], list[str]]
    #: Of all inputs.
    share: float


def _campaign(*command: str) -> Callable[[bytes, Path], list[str]]:
    def words(text: bytes, folder: Path) -> list[str]:
        in_file("c.yaml", text, folder)
        return [command[0], "c.yaml", *command[1:], "--machine", "localhost"]

    return words


def _run(*command: str) -> Callable[[bytes, Path], list[str]]:
    def words(text: bytes, folder: Path) -> list[str]:
        lay_out(text, folder / "run", _RUN)
        return [*command, *(["run"] * (2 if "compare" in command else 1))]

    return words


def _file(name: str, *command: str) -> Callable[[bytes, Path], list[str]]:
    def words(text: bytes, folder: Path) -> list[str]:
        in_file(name, text, folder)
        return [*command]

    return words


def _line(text: bytes, _: Path) -> list[str]:
    words = text.replace(b"\0", b"").decode(errors="surrogateescape").split("\n")[:40]
    return ["-h"] if _NEVER.intersection(words) else words


KINDS = [
    Kind("campaign, plan", _CAMPAIGNS, _campaign("plan"), 0.25),
    Kind("campaign, run", _CAMPAIGNS, _campaign("run"), 0.1),
    Kind("run folder, report", [tree(_RUN)], _run("report"), 0.1),
    Kind("run folder, report --force", [tree(_RUN)], _run("report", "--force"), 0.05),
    Kind("run folder, compare", [tree(_RUN)], _run("compare", "--json"), 0.05),
    Kind("sweep, fit", [_SWEEP], _file("s.csv", "model", "fit", "s.csv"), 0.1),
    Kind("model, predict", [_MODEL], _file("m.json", "model", "predict", "--model", "m.json"), 0.1),
    Kind("command line", _LINES, _line, 0.25),
]
