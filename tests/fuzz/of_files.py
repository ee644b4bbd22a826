"""What users write and runs leave, as far as `tests.bad_inputs` does not damage it."""

import dataclasses
import json
import lzma
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import polars as pl

from analysis.contention import evaluate, sweep
from analysis.history.alarms import survey
from analysis.history.nights import nights_of, read_results
from analysis.report.table import COLUMNS
from analysis.samples.counts import counters_of, medians, read_counts
from nimc.cli.model import load_model
from records import units
from records.errors import InputError, MachineError
from records.machine import site
from records.run import load_header
from records.traffic import formats, trace
from reframe_tests.spack import build, setup
from reframe_tests.spack.setup import SpackLayout
from testbed import state, vm
from testbed.spec import ClusterLayout, Spec
from testbed.state import State
from tests.analysis.contention.test_parameters import FITTED
from tests.fuzz.target import Target, captures, finite, in_file, text_of
from tests.records.traffic.made import PLAIN, answer, labels

_ROOT = Path(__file__).parents[2]
_SITES = [
    path.read_bytes().replace(f"name: {path.stem}".encode(), b"name: m")
    for path in sorted((_ROOT / "site").glob("*.yaml"))
]
_MONITORED = [each.encode() for each in (PLAIN, answer([(labels(), [(1, "0"), (2, "5")])]))]
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
_ROW = json.dumps(
    {"schema": 1, "machine": "m", "campaign": "c", "run": "r", "started_s": 86400.5,
     "finished_s": 86500.5, "faults": 0, "facts": [{"name": "kernel", "value": "6"}],
     "case": "stream", "arm": "off", "role": "baseline", "unit": "s", "better": "lower",
     "fom": 2.5, "nodes": "n0"}
).encode()  # fmt: skip
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


def _results(text: bytes, folder: Path) -> None:
    """A table of results that is none, and one with any values, as far as its columns hold them."""
    in_file("a/report/results.parquet", text, folder)
    with suppress(ValueError, TypeError, OverflowError, RecursionError, pl.exceptions.PolarsError):
        table = in_file("b/report/results.parquet", b"", folder)
        pl.DataFrame([json.loads(text)], schema_overrides=COLUMNS).write_parquet(table)
    results, left_out = read_results([folder])
    assert not any("\n" in line for line in left_out)
    survey(nights_of(results), results)


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
    dataclasses.asdict(State(Spec("rxe", 3, 1), "up", "10.77.9", 1, 900, "tcg"))
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
    Target("file.results", _results, [_ROW], _INPUT),
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
