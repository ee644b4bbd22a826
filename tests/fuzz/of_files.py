"""What users write and runs leave, as far as `tests.bad_inputs` does not damage it."""

import dataclasses
import io
import json
import lzma
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import polars as pl

from analysis.contention import evaluate, sweep
from analysis.history import files
from analysis.history.store import alarmed_runs, load_nights, load_runs
from analysis.history.tables import RUNS
from analysis.pages.data import fact_changes
from analysis.samples.counts import counters_of, medians, read_counts
from nimc.base import units
from nimc.base.errors import InputError, MachineError
from nimc.cli.model import load_model
from nimc.machine import site
from nimc.records.run import load_header
from nimc.spack import build, setup
from nimc.spack.setup import SpackLayout
from nimc.traffic import formats, trace
from testbed import state, vm
from testbed.spec import ClusterLayout, Spec
from testbed.state import State
from tests.analysis.contention.test_parameters import FITTED
from tests.fuzz.target import Target, captures, finite, in_file, text_of
from tests.nimc.traffic.made import PLAIN, answer, labels, ldms

_ROOT = Path(__file__).parents[2]
_SITES = [
    path.read_bytes().replace(f"name: {path.stem}".encode(), b"name: m")
    for path in sorted((_ROOT / "site").glob("*.yaml"))
]
_MONITORED = [
    each.encode() for each in (PLAIN, ldms([0, 5]), answer([(labels(), [(1, "0"), (2, "5")])]))
]
_COUNTER = {
    "key": "stream/0/0/off/0", "case": "stream", "arm": "off", "tool": "perf_stat", "rank": 0,
    "event": "cycles", "value": 5e9, "unit": "count", "state": "counted", "running_share": 1.0,
}  # fmt: skip
_COUNTERS = "".join(
    json.dumps({**_COUNTER, **more}) + "\n"
    for more in ({}, {"rank": 1}, {"event": "instructions", "value": None, "state": "not counted"})
).encode()
_JUDGED = pl.DataFrame(
    [{"key": _COUNTER["key"], "case": "stream", "arm": "off", "factors": "{}", "block": 0,
      "pair": 0, "status": "counts"}]
)  # fmt: skip
_ENTRY_FILES = {"nights": "r-0123456789abcdef.parquet", "samples": ""}
_ENTRY = json.dumps(
    {"machine": "m", "campaign": "c", "run": "r", "started_s": 86400.5, "finished_s": None,
     "digest": "0", "commit": None, "samples": 3, "rejected": 1, "outcome": "measured",
     "made": "{}", "nodes": "n0", "size_b": 9, "sha256": "0"}
).encode()  # fmt: skip
_ALARM = b'{"schema": 1, "machine": "m", "runs": ["a", "b"]}'
_CSV = (
    b"n,comp_node,comm_node,comp_alone_b_s,comm_alone_b_s,comp_par_b_s,comm_par_b_s\n"
    b"1,0,0,5e9,4e9,5e9,4e9\n2,1,1,1e10,,9e9,3500000000\n"
)


def _in(name: str, read: Callable[[Path], object]) -> Callable[[bytes, Path], object]:
    """What reads a file of this name."""
    return lambda text, folder: read(in_file(name, text, folder))


def _in_folder(name: str, read: Callable[[Path], object]) -> Callable[[bytes, Path], object]:
    """What reads a folder with a file of this name."""

    def call(text: bytes, folder: Path) -> object:
        in_file(name, text, folder)
        return read(folder)

    return call


_MODEL = json.dumps(evaluate.load_published(evaluate.published_names()[0]).as_dict()).encode()
_FITTED = json.dumps(FITTED.as_dict()).encode()
_SWEEP = json.dumps(
    {"schema": 1, "name": "a", "cores": 16,
     "points": [{"n": 1, "comp_node": 0, "comm_node": 0, "comp_alone_b_s": 5e9,
                 "comm_alone_b_s": 4e9, "comp_par_b_s": 5e9, "comm_par_b_s": 4e9}]}
).encode()  # fmt: skip


def _counts(text: bytes, folder: Path) -> None:
    in_file("counters/stream.jsonl", text, folder)
    medians(counters_of(read_counts(folder), _JUDGED))


def _stored(text: bytes, folder: Path) -> None:
    """An entry of a store with any values; and a file that is not what its name says."""
    shutil.rmtree(folder / "store", ignore_errors=True)
    in_file(
        "store/nights/machine=m/campaign=c/month=1970-01/r-0123456789abcdef.parquet", text, folder
    )
    row = _entry_row(text)
    if row is not None:
        place = files.partition("m", "c", 0.0)
        files.write(folder / "store/runs" / place, "r", row, _ENTRY_FILES)
    lines: list[str] = []
    for load in (load_runs, load_nights):
        load(folder / "store", left_out=lines.append)
    assert not any("\n" in line for line in lines)


def _made(text: bytes, _: Path) -> None:
    """What made a run, as the pages compare it with the run before."""
    given = ("{}", text.decode(errors="replace"), '{"kernel": "5.14"}')
    rows = [
        dict.fromkeys(RUNS)
        | {"started_s": float(index), "campaign": "c", "run": f"r{index}", "made": made}
        for index, made in enumerate(given)
    ]
    changes = fact_changes(pl.DataFrame(rows, schema=RUNS))
    assert all(each.name.isprintable() and each.after.isprintable() for each in changes)


def _entry_row(text: bytes) -> pl.DataFrame | None:
    """A row of any types, as far as Parquet can hold it."""
    try:
        row = pl.DataFrame([json.loads(text)])
        row.write_parquet(io.BytesIO())
    except (ValueError, TypeError, OverflowError, RecursionError, pl.exceptions.PolarsError):
        return None
    return row


def _unit(parser: Callable[[str, str], float]) -> Target:
    def read(text: bytes, _: Path) -> None:
        finite(parser(text_of(text), "field"))

    return Target(f"units.{parser.__name__}", read, _LENGTHS, _INPUT)


def _traffic(text: bytes, folder: Path) -> None:
    made = formats.trace([formats.read(in_file("monitoring", text, folder))])
    made.save(folder / "t.parquet")
    assert trace.load(folder / "t.parquet").header == made.header


def _spack(text: bytes, folder: Path) -> None:
    layout = SpackLayout(folder, "m")
    in_file(str(layout.stamp("proxyapps").relative_to(folder)), text, folder)
    with suppress(InputError):
        build.read(layout, "proxyapps")
    in_file(str(layout.settings.relative_to(folder)), text, folder)
    setup.load(layout)


def _compilers(text: bytes, folder: Path) -> None:
    layout = SpackLayout(folder, "m")
    in_file(str(layout.packages.relative_to(folder)), text, folder)
    setup.compilers(layout, setup.SpackSettings("/", "1.1.0", True, None, None, None))


_STATE = json.dumps(
    State(Spec("rxe", 3, 1), "up", "10.77.9", 1, 900, "tcg").as_dict(ClusterLayout(Path("/s")))
).encode()
_SETTINGS = json.dumps({each.name: None for each in dataclasses.fields(setup.SpackSettings)})
_BUILT = json.dumps({each.name: None for each in dataclasses.fields(build.Built)})
_COMPILERS = (
    b"packages:\n  gcc::\n    externals:\n    - spec: gcc@14 languages='c'\n      prefix: /usr\n"
    b"      extra_attributes: {compilers: {c: /bin/sh, cxx: g++}}\n"
)
_LOG = (
    b"==> Installing a-1-%s [1/2]\n==> Error: failed for the following reasons:\n\n   1. no b\n"
    b"  >> 56    error: c\n" % (b"a" * 32)
)
_IMAGE = bytes(0x202) + b"HdrS" + bytes(0x100) + lzma.compress(b"\x7fELF")
_MODULE = b"license=GPL\0depends=a,b\0name=c\0"
_LENGTHS = [b"2min", b"1.5h", b"64KiB", b"1GiB", b"1Gb/s", b"500MB/s", b"30", b"1e3s"]
_INPUT = (InputError,)

TARGETS = [
    Target("file.site", _in_folder("site/m.yaml", lambda folder: site.load("m", folder)),
           _SITES, _INPUT),
    Target("file.counters", _counts, [_COUNTERS], _INPUT),
    Target("file.run.json", _in_folder("run.json", load_header),
           captures("run_quick/*/run.json"), _INPUT),
    Target("file.store", _stored, [_ENTRY], _INPUT),
    Target("file.made", _made, [b'{"kernel": "6.1", "microcode": "0x1"}']),
    Target("file.alarm", _in_folder("alarms/1.json", alarmed_runs), [_ALARM], _INPUT),
    Target("file.sweep.json", _in("sweep.json", sweep.load), [_SWEEP], _INPUT),
    Target("file.sweep.csv", _in("sweep.csv", sweep.load), [_CSV], _INPUT),
    Target("file.model", _in("model.json", lambda file: load_model(None, file)),
           [_MODEL, _FITTED], _INPUT),
    Target("file.traffic", _traffic, _MONITORED, _INPUT),
    Target("file.minicluster", _in_folder("state.json", lambda at: state.read(ClusterLayout(at))),
           [_STATE]),
    Target("file.compilers", _compilers, [_COMPILERS], _INPUT),
    Target("spack's log", lambda text, _: setup.reason_in(text_of(text)), [_LOG]),
    Target("file.spack", _spack, [_SETTINGS.encode(), _BUILT.encode()], _INPUT),
    Target("file.boot image", lambda image, _: vm.payload(image), [_IMAGE], (MachineError,)),
    Target("file.module", lambda module, _: vm.dependencies(module), [_MODULE]),
    *map(_unit, (units.duration_s, units.size_b, units.rate_b_s, units.count)),
]  # fmt: skip
