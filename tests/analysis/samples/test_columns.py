"""Samples as columns: what is summed up, what survives, and bad lines by their place."""

import json
from collections.abc import Iterator
from dataclasses import MISSING, asdict, fields, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pydantic
import pytest

from analysis.samples.columns import read_run, read_samples
from analysis.samples.counts import read_counts
from analysis.samples.pairs import RejectionKind, rejection_kinds
from records.errors import InputError
from records.sample import DeviceBytes, NodeConditions, Sample, TimetableRecord, WriterRecord
from tests import made_writers
from tests.analysis.synthetic import LAMMPS, STREAM, reject, samples, write_run
from tests.schema_6 import as_schema_6


def _lines(tmp_path: Path, *lines: str | bytes) -> Path:
    path = tmp_path / "case.jsonl"
    path.write_bytes(b"".join(x if isinstance(x, bytes) else x.encode() for x in lines))
    return path


def _record(**changes: Any) -> str:
    return json.dumps({**samples(STREAM, pairs=1)[1].as_dict(), **changes}) + "\n"


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("[", "]"),
        ('{"a":', "}"),
        ('["]",', "]"),  # brackets in strings close nothing
        ('["","]","",', "]"),
        ('{"}":', "}"),
        (r'["\"]",', "]"),
        (r'["\"]\"",', r',"\"[\""]'),  # without backslashes, all brackets would pair up
    ],
)
def test_a_line_that_is_nested_too_deep_is_refused(tmp_path: Path, begin: str, end: str) -> None:
    """Polars ended the process by SIGSEGV, from 20,000 levels on."""
    deep = f'{{"x":{begin * 20_000}1{end * 20_000}}}\n'
    path = _lines(tmp_path, _record(), deep)
    with pytest.raises(InputError, match=r"case\.jsonl:2: invalid JSON: recursion limit"):
        read_samples([path])
    (tmp_path / "counters").mkdir()
    path.rename(tmp_path / "counters" / "case.jsonl")
    with pytest.raises(InputError, match=r"case\.jsonl:2: invalid JSON: recursion limit"):
        read_counts(tmp_path)


def test_samples_of_the_schema_before_are_read_as_those_of_today(tmp_path: Path) -> None:
    first, *others = samples(STREAM, pairs=2)
    records = [run.as_dict() for run in (reject(first, "rejected", "why"), *others)]
    before = list(map(as_schema_6, records))
    assert {record["outcome"] for record in before} == {"kept", "rejected"}
    lines = ["".join(json.dumps(record) + "\n" for record in kind) for kind in (before, records)]
    old, new = (read_samples([_lines(tmp_path, text)]).frame.drop("schema") for text in lines)
    assert old.equals(new)
    assert set(new["outcome"].to_list()) == {"accepted", "rejected"}


def test_every_field_comes_back_as_it_was_written(tmp_path: Path) -> None:
    runs = samples(STREAM, blocks=2, pairs=2) + samples(LAMMPS, pairs=2)
    frame = read_run(write_run(tmp_path / "run", runs)).frame
    back = {row["key"]: row for row in frame.iter_rows(named=True)}
    assert len(back) == len(runs)
    for sample in runs:
        row = back[sample.key]
        for name, value in sample.as_dict().items():
            if name in ("nodes", "origin_nodes"):
                assert row[name] == ",".join(value)
            elif name == "seed":
                assert row[name] == str(value)
            elif name in ("fom_extra", "factors"):
                assert json.loads(row[name]) == value
            elif name == "writers":
                assert row[name] == len(value)
            elif name not in ("conditions", "counters_sha256", "logs"):
                assert row[name] == value, name


def test_order_is_that_of_the_file_across_pieces(tmp_path: Path) -> None:
    path = _lines(tmp_path, *(_record(key=f"k{i}") for i in range(60)))
    frame = read_samples([path], piece_b=1000).frame
    assert frame["key"].to_list() == [f"k{i}" for i in range(60)]


def _row(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    """The columns of a sample."""
    changes = {
        name: [asdict(writer) for writer in value] if name == "writers" else value
        for name, value in changes.items()
    }
    return read_samples([_lines(tmp_path, _record(**changes))]).frame.row(0, named=True)


def test_writers_are_summed_and_the_worst_one_is_kept(tmp_path: Path) -> None:
    first = made_writers.record(
        origin="a",
        target="b",
        transport="tcp",
        message_b=4096,
        asked_b_s=1e9,
        rate_alone_b_s=10.0,
        rate_b_s=9.0,
        rate_min_b_s=8.0,
        bytes_b=90.0,
    )
    second = made_writers.record(
        origin="b",
        target="b",
        asked_b_s=2e9,
        rate_alone_b_s=20.0,
        rate_b_s=18.0,
        rate_min_b_s=10.0,
        bytes_b=180.0,
    )
    row = _row(tmp_path, writers=[first, second])
    assert row["writers"] == 2
    assert (row["injector"], row["transport"]) == ("ucx", "tcp+shared memory")
    assert (row["writer_rate_alone_b_s"], row["writer_rate_b_s"]) == (30.0, 27.0)
    assert row["writer_share"] == 0.5  # 10 of 20
    assert (row["message_b"], row["writer_bytes_b"], row["asked_b_s"]) == (65536, 90.0, 3e9)
    assert row["same_host"] is True
    assert row["cpu_share"] is None
    # At full rate if one of them is, and without writers.
    for writers in ([replace(first, asked_b_s=None), second], []):
        assert _row(tmp_path, writers=writers)["asked_b_s"] is None
    own = made_writers.control(origin="a", target="a", cpu_share=0.4)
    assert _row(tmp_path, writers=[own, replace(own, cpu_share=0.25)])["cpu_share"] == 0.25


def test_conditions_are_those_of_the_worst_node_and_every_digit_survives(tmp_path: Path) -> None:
    nodes = [
        {"node": "a", "over_s": 9.0, "foreign_cpus": 0.5, "frequency_hz": 2e9},
        {"node": "b", "over_s": 9.0, "foreign_cpus": 0.1, "frequency_hz": 1e9, "steal_share": 0.2},
    ]
    row = _row(tmp_path, conditions=nodes, seed=2**90, fom=0.1 + 0.2)
    assert (row["foreign_cpus"], row["steal_share"], row["frequency_hz"]) == (0.5, 0.2, 1e9)
    assert (row["seed"], row["fom"]) == (str(2**90), 0.1 + 0.2)


@pytest.mark.parametrize("ascii_", [True, False])
def test_any_text_survives(tmp_path: Path, ascii_: bool) -> None:
    nasty = 'a "b" \\n \n\t\0 \u2028 ü \U0001f600 {"x": [1]}'
    record = json.loads(_record(notes=[nasty, ""], reason=nasty))
    text = json.dumps(record, ensure_ascii=ascii_) + "\n"
    row = read_samples([_lines(tmp_path, _record(), text.replace("aa/0", "x"))]).frame
    assert row["notes"].to_list()[1] == [nasty, ""]
    assert row["reason"][1] == nasty


@pytest.mark.parametrize(
    ("last", "keys"), [(_record(key="b")[:-40], ["a"]), (_record(key="b").rstrip(), ["a", "b"])]
)
def test_a_torn_last_line_is_ignored_and_reported(
    tmp_path: Path, last: str, keys: list[str]
) -> None:
    """One that is whole counts without its newline."""
    path = _lines(tmp_path, _record(key="a"), last)
    read = read_samples([path])
    assert read.frame["key"].to_list() == keys
    assert read.torn == ([] if "b" in keys else [str(path)])


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("{\n", "EOF"),
        ("\n", "EOF"),
        ("[1]\n", "the file: a list found"),
        (_record(fom_extra={"copy": float("nan")}), "expected value"),
        (_record(fom="fast"), "fom: "),
        (_record(block=1.5), "block: "),
        (_record(warmup="perhaps"), "warmup: "),
        (_record(writers=[{"injector": "ucx"}]), "writers.0.origin: missing"),
        (_record(outcome="fine"), "outcome: 'fine' found; allowed: 'kept', 'accepted', 'rejected'"),
        (_record(arm=None), "arm: nothing found; allowed: text"),
        (_record(fom=None), "fom: None found; allowed: a number above 0"),
        (_record(schema=6, outcome="kept", fom=0.0), "fom: 0.0 found; allowed: a number above 0"),
        (_record(outcome="kept"), "outcome: 'kept' found; allowed: 'accepted' in schema 7"),
        (_record(schema=6), "outcome: 'accepted' found; allowed: 'kept' in schema 6"),
        (_record(schema=8), "schema: 8 found; allowed: 6, 7; nimc 0.1.0 (commit f7826cd1) reads"),
        (_record(schema=5), "schema: 5 found; allowed: 6, 7; nimc 0.1.0"),
        (_record(schema=None), "schema: None found; allowed: 6, 7"),
        (_record(role=None), "role: nothing found; allowed: '"),
        (_record(schema=5, block="of wood"), "schema: 5 found; allowed: 6, 7"),
        *((_record(factors=bad), "factors: ") for bad in ("x", [1])),
        *((_record(factors={"rate": bad}), "factors.rate") for bad in ([1], None)),
        *((_record(fom_extra=bad), "fom_extra: ") for bad in ("x", [1])),
        *((_record(fom_extra={"c": bad}), "fom_extra.c: ") for bad in ("4", None, [4], True)),
    ],
)
def test_a_bad_line_is_named_by_file_and_line(tmp_path: Path, bad: str, words: str) -> None:
    path = _lines(tmp_path, _record(key="a"), _record(key="b"), bad, _record(key="c"))
    with pytest.raises(InputError) as error:
        read_samples([path])
    assert str(error.value).startswith(f"{path}:3: ")
    assert words in str(error.value)


def test_a_duplicate_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="duplicate sample key 'a', 2 times"):
        read_samples([_lines(tmp_path, _record(key="a"), _record(key="b"), _record(key="a"))])


@pytest.mark.parametrize("reason", ["none", "a\nbreak"])
def test_optional_fields_may_be_absent(tmp_path: Path, reason: str) -> None:
    record = json.loads(_record(reason=reason))
    for name in ("writers", "notes", "fom_extra"):
        del record[name]
    row = read_samples([_lines(tmp_path, json.dumps(record) + "\n")]).frame.row(0, named=True)
    assert (row["writers"], row["notes"]) == (0, [])
    assert row["writer_rate_b_s"] is None


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        # Reasons that differ in numbers alone are one kind, one reason stays as it is.
        (
            [("rejected", "at 22.5%; 50% asked"), ("died", "9"), ("rejected", "at 7%; 50% asked")],
            [RejectionKind("rejected", "at ...%; 50% asked", 2), RejectionKind("died", "9", 1)],
        ),
        (
            [("no_fom", "no time in 812 lines")] * 3,
            [RejectionKind("no_fom", "no time in 812 lines", 3)],
        ),
        (
            [("rejected", "a 1"), ("rejected", "b 1"), ("no_fom", "a 1")],
            [
                RejectionKind("rejected", "a 1", 1),
                RejectionKind("rejected", "b 1", 1),
                RejectionKind("no_fom", "a 1", 1),
            ],
        ),
        ([], []),
    ],
)
def test_kinds_of_reasons(lost: list[tuple[str, str]], expected: list[RejectionKind]) -> None:
    assert rejection_kinds(lost) == expected


# The rules of a sample are its record's: what the model refuses, the reader refuses at that field.


def _full() -> dict[str, Any]:
    """A sample in which every nested record occurs."""
    record = {**samples(STREAM, pairs=1)[1].as_dict(), "fom_extra": {"copy_b_s": 1.0}}
    record["writers"] = [
        asdict(
            made_writers.record(
                origin="a",
                target="b",
                transport="RoCE",
                message_b=8,
                rate_alone_b_s=1.0,
                rate_b_s=1.0,
                rate_min_b_s=1.0,
                bytes_b=8.0,
            )
        )
    ]
    record["timetable"] = asdict(
        TimetableRecord(
            writers=1,
            length_s=0.5,
            tolerance_s=0.1,
            allowed_share=0.05,
            messages=5,
            planned=1,
            done=1,
        )
    )
    device = DeviceBytes("m0", 1, 2)
    record["conditions"] = [asdict(NodeConditions(node="a", over_s=9.0, devices=[device]))]
    return record


#: Record -> where `_full` has it.
_WITHIN: dict[Any, tuple[str | int, ...]] = {
    Sample: (),
    WriterRecord: ("writers", 0),
    TimetableRecord: ("timetable",),
    NodeConditions: ("conditions", 0),
    DeviceBytes: ("conditions", 0, "devices", 0),
}
_ABSENT = object()


def _wrong(hint: Any) -> list[object]:
    """Values that are not of a type."""
    if get_origin(hint) is Annotated:
        return _wrong(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        types = [part for part in get_args(hint) if part is not NoneType]
        return _wrong(types[0])
    if get_origin(hint) is Literal:
        return ["sideways", 5]
    if get_origin(hint) is list:
        return [{}, "x", 5]
    if get_origin(hint) is dict:
        return [[], "x", 5, {"a": []}]
    wrong: dict[Any, list[object]] = {int: ["x", 1.5], float: ["x", []], str: [5, []]}
    return wrong.get(hint, ["x", 5])


def _bad_samples() -> Iterator[Any]:
    for record, within in _WITHIN.items():
        hints = get_type_hints(record, include_extras=True)
        for item in fields(record):
            values = _wrong(hints[item.name])
            if NoneType not in get_args(hints[item.name]):
                values.append(None)
            if item.default is MISSING and item.default_factory is MISSING:
                values.append(_ABSENT)
            name = ".".join(map(str, (*within, item.name)))
            yield from (pytest.param(within, item.name, value, id=name) for value in values)


@pytest.mark.parametrize(("within", "name", "value"), list(_bad_samples()))
def test_what_the_record_forbids_the_reader_refuses_at_that_field(
    tmp_path: Path, within: tuple[str | int, ...], name: str, value: object
) -> None:
    sample: Any = _full()
    changed = sample
    for step in within:
        changed = changed[step]
    if value is _ABSENT:
        del changed[name]
    else:
        changed[name] = value
    with pytest.raises(pydantic.ValidationError) as model:
        pydantic.TypeAdapter(Sample).validate_python(sample)
    field = ".".join(map(str, model.value.errors()[0]["loc"]))
    with pytest.raises(InputError) as reader:
        read_samples([_lines(tmp_path, json.dumps(sample) + "\n")])
    assert str(reader.value).startswith(f"{tmp_path}/case.jsonl:1: {field.split('[')[0]}")


def test_a_sample_with_every_record_is_read(tmp_path: Path) -> None:
    path = _lines(tmp_path, json.dumps(_full()) + "\n")
    assert read_samples([path]).frame["key"].to_list() == [_full()["key"]]


def test_a_size_that_no_table_holds_is_refused(tmp_path: Path) -> None:
    record = _full()
    record["writers"][0]["message_b"] = 2**63
    with pytest.raises(InputError, match=r":1: writers\.0\.message_b: 9223372036854775808 found"):
        read_samples([_lines(tmp_path, json.dumps(record) + "\n")])
