"""Tests how samples are read as columns: sums, unchanged fields, and names of invalid lines."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, asdict, fields, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import polars as pl
import pydantic
import pytest

from analysis.samples.columns import read_run, read_samples
from analysis.samples.counts import read_counts
from analysis.samples.pairs import RejectionKind, rejection_kinds
from records.errors import InputError
from records.sample import DeviceBytes, NodeConditions, Sample, TimetableRecord, WriterRecord
from tests import made_writers
from tests.analysis.synthetic import LAMMPS, STREAM, reject, samples, write_run
from tests.messages import assert_message
from tests.schema_6 import as_schema_6


def file_of(tmp_path: Path, *lines: str) -> Path:
    """Write lines, which end as they are given, to `case.jsonl`."""
    path = tmp_path / "case.jsonl"
    path.write_bytes("".join(lines).encode())
    return path


def line_of(**changes: Any) -> str:
    """Return the line of a run of STREAM under writers, with changed fields."""
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
    """With 20,000 levels or more, Polars crashed with SIGSEGV."""
    deep = f'{{"x":{begin * 20_000}1{end * 20_000}}}\n'
    path = file_of(tmp_path, line_of(), deep)
    with pytest.raises(InputError, match=r"case\.jsonl:2: "):
        read_samples([path])
    (tmp_path / "counters").mkdir()
    path.rename(tmp_path / "counters" / "case.jsonl")
    with pytest.raises(InputError, match=r"case\.jsonl:2: "):
        read_counts(tmp_path)


def test_samples_of_schema_6_are_read_as_those_of_today(tmp_path: Path) -> None:
    first, *others = samples(STREAM, pairs=2)
    records = [run.as_dict() for run in (reject(first, "rejected", "why"), *others)]
    records_6 = list(map(as_schema_6, records))
    assert {record["outcome"] for record in records_6} == {"kept", "rejected"}

    def frame_of(documents: Iterable[object]) -> pl.DataFrame:
        path = file_of(tmp_path, *(json.dumps(document) + "\n" for document in documents))
        return read_samples([path]).frame.drop("schema")

    frame = frame_of(records_6)
    assert frame.equals(frame_of(records))
    assert set(frame["outcome"].to_list()) == {"accepted", "rejected"}


def test_every_field_is_read_as_it_was_written(tmp_path: Path) -> None:
    runs = samples(STREAM, blocks=2, pairs=2) + samples(LAMMPS, pairs=2)
    frame = read_run(write_run(tmp_path / "run", runs)).frame
    rows = {row["key"]: row for row in frame.iter_rows(named=True)}
    assert len(rows) == len(runs)
    for sample in runs:
        row = rows[sample.key]
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


def test_samples_are_in_the_order_of_the_file_if_it_is_read_in_pieces(
    tmp_path: Path,
) -> None:
    keys = [f"k{number}" for number in range(60)]
    path = file_of(tmp_path, *(line_of(key=key) for key in keys))
    assert read_samples([path], piece_b=1000).frame["key"].to_list() == keys


def row_of(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    """Return the columns of a sample with changed fields."""
    return read_samples([file_of(tmp_path, line_of(**changes))]).frame.row(0, named=True)


@pytest.mark.parametrize("level", [r"rate: (\d+)", r"a\b", "\\", 'a\\"\n{', "plain"])
def test_levels_and_extra_figures_keep_their_backslashes(tmp_path: Path, level: str) -> None:
    """The second sample has no backslash, and is read in the same piece."""
    names = {"factors": {"command": level, "rate": 0.25}, "fom_extra": {level: 2.5}}
    path = file_of(tmp_path, line_of(key="a", **names), line_of(key="b"))
    row, plain = read_samples([path]).frame.iter_rows(named=True)
    assert {name: json.loads(row[name]) for name in names} == names
    assert plain["factors"] == "{}"


FIRST_WRITER = made_writers.record(
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
SECOND_WRITER = made_writers.record(
    origin="b",
    target="b",
    asked_b_s=2e9,
    rate_alone_b_s=20.0,
    rate_b_s=18.0,
    rate_min_b_s=10.0,
    bytes_b=180.0,
)


def row_with_writers(tmp_path: Path, *writers: WriterRecord) -> dict[str, Any]:
    """Return the columns of a sample with these writers."""
    return row_of(tmp_path, writers=[asdict(writer) for writer in writers])


def test_rates_of_writers_are_summed(tmp_path: Path) -> None:
    row = row_with_writers(tmp_path, FIRST_WRITER, SECOND_WRITER)
    assert row["writers"] == 2
    assert (row["injector"], row["transport"]) == ("ucx", "tcp+shared memory")
    assert (row["writer_rate_alone_b_s"], row["writer_rate_b_s"]) == (30.0, 27.0)
    assert row["asked_b_s"] == 3e9


def test_a_property_of_writers_is_that_of_the_worst_one(tmp_path: Path) -> None:
    """These are the least share (10 of 20) and bytes, and the largest message.

    `same_host` is true if any writer's origin is on its target.
    """
    row = row_with_writers(tmp_path, FIRST_WRITER, SECOND_WRITER)
    assert row["writer_share"] == 0.5
    assert (row["message_b"], row["writer_bytes_b"]) == (65536, 90.0)
    assert row["same_host"] is True
    assert row["cpu_share"] is None


def test_there_is_no_requested_rate_if_a_writer_has_none_or_there_is_no_writer(
    tmp_path: Path,
) -> None:
    at_full_rate = replace(FIRST_WRITER, asked_b_s=None)
    assert row_with_writers(tmp_path, at_full_rate, SECOND_WRITER)["asked_b_s"] is None
    assert row_with_writers(tmp_path)["asked_b_s"] is None


def test_the_processor_share_of_controls_is_the_least(tmp_path: Path) -> None:
    control = made_writers.control(origin="a", target="a", cpu_share=0.4)
    row = row_with_writers(tmp_path, control, replace(control, cpu_share=0.25))
    assert row["cpu_share"] == 0.25


def test_conditions_are_those_of_the_worst_node(tmp_path: Path) -> None:
    nodes = [
        {"node": "a", "over_s": 9.0, "foreign_cpus": 0.5, "frequency_hz": 2e9},
        {"node": "b", "over_s": 9.0, "foreign_cpus": 0.1, "frequency_hz": 1e9, "steal_share": 0.2},
    ]
    row = row_of(tmp_path, conditions=nodes)
    assert (row["foreign_cpus"], row["steal_share"], row["frequency_hz"]) == (0.5, 0.2, 1e9)


def test_every_digit_of_a_number_is_kept(tmp_path: Path) -> None:
    row = row_of(tmp_path, seed=2**90, fom=0.1 + 0.2)
    assert (row["seed"], row["fom"]) == (str(2**90), 0.1 + 0.2)


@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_any_text_is_kept(tmp_path: Path, ensure_ascii: bool) -> None:
    text = 'a "b" \\n \n\t\0 \u2028 ü \U0001f600 {"x": [1]}'
    record = json.loads(line_of(key="b", notes=[text, ""], reason=text))
    line = json.dumps(record, ensure_ascii=ensure_ascii) + "\n"
    frame = read_samples([file_of(tmp_path, line_of(key="a"), line)]).frame
    assert frame["notes"].to_list()[1] == [text, ""]
    assert frame["reason"][1] == text


@pytest.mark.parametrize("cut_b", [1, 2, 40])
def test_a_last_line_without_its_newline_is_ignored_and_reported(
    tmp_path: Path, cut_b: int
) -> None:
    """Either the conductor is still writing the line, or a resumed run will remove it."""
    path = file_of(tmp_path, line_of(key="a"), line_of(key="b")[:-cut_b])
    read = read_samples([path])
    assert (read.frame["key"].to_list(), read.cut_off_files) == (["a"], [str(path)])


def assert_refused(tmp_path: Path, invalid_line: str, field: str, allowed: str) -> None:
    """Assert that a line is refused by its file, its number and, if it is JSON, its field."""
    path = file_of(tmp_path, line_of(key="a"), line_of(key="b"), invalid_line, line_of(key="c"))
    with pytest.raises(InputError) as error:
        read_samples([path])
    location = f"{path}:3: {field}" if field else f"{path}:3"
    assert_message(str(error.value), location, allowed=allowed)


@pytest.mark.parametrize("line", ["{\n", "\n", line_of(fom_extra={"copy": float("nan")})])
def test_a_line_that_is_not_json_is_named_by_file_and_line(tmp_path: Path, line: str) -> None:
    assert_refused(tmp_path, line, "", "")


@pytest.mark.parametrize(
    ("line", "field", "allowed"),
    [
        ("[1]\n", "the file", ""),
        (line_of(fom="fast"), "fom", ""),
        (line_of(fom=None), "fom", "a number above 0"),
        (line_of(schema=6, outcome="kept", fom=0.0), "fom", "a number above 0"),
        (line_of(block=1.5), "block", ""),
        (line_of(warmup="perhaps"), "warmup", ""),
        (line_of(writers=[{"injector": "ucx"}]), "writers.0.origin", ""),
        (line_of(arm=None), "arm", "text"),
        (line_of(role=None), "role", "'"),
        (line_of(outcome="fine"), "outcome", "'kept', 'accepted', 'rejected'"),
        (line_of(outcome="kept"), "outcome", "'accepted' in schema 7"),
        (line_of(schema=6), "outcome", "'kept' in schema 6"),
        (line_of(schema=8), "schema", "6, 7; nimc 0.1.0 (commit f7826cd1)"),
        (line_of(schema=5), "schema", "6, 7; nimc 0.1.0"),
        (line_of(schema=None), "schema", "6, 7"),
        (line_of(schema=5, block="of wood"), "schema", "6, 7"),
        (line_of(factors="x"), "factors", ""),
        (line_of(factors=[1]), "factors", ""),
        (line_of(factors={"rate": [1]}), "factors.rate.int", ""),
        (line_of(factors={"rate": None}), "factors.rate.int", ""),
        (line_of(fom_extra="x"), "fom_extra", ""),
        (line_of(fom_extra=[1]), "fom_extra", ""),
        *((line_of(fom_extra={"c": value}), "fom_extra.c", "") for value in ("4", None, [4], True)),
    ],
)
def test_an_invalid_sample_is_named_by_file_line_and_field(
    tmp_path: Path, line: str, field: str, allowed: str
) -> None:
    assert_refused(tmp_path, line, field, allowed)


def test_a_duplicate_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'a'.* 2 times"):
        read_samples([file_of(tmp_path, line_of(key="a"), line_of(key="b"), line_of(key="a"))])


@pytest.mark.parametrize("reason", ["none", "a\nbreak"])
def test_optional_fields_may_be_absent(tmp_path: Path, reason: str) -> None:
    record = json.loads(line_of(reason=reason))
    for name in ("writers", "notes", "fom_extra"):
        del record[name]
    row = read_samples([file_of(tmp_path, json.dumps(record) + "\n")]).frame.row(0, named=True)
    assert (row["writers"], row["notes"]) == (0, [])
    assert row["writer_rate_b_s"] is None


@pytest.mark.parametrize(
    ("rejections", "kinds"),
    [
        # Reasons that differ only in numbers are one kind. A reason that occurs once keeps its
        # number.
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
def test_rejections_of_one_outcome_and_reason_are_one_kind(
    rejections: list[tuple[str, str]], kinds: list[RejectionKind]
) -> None:
    assert rejection_kinds(rejections) == kinds


# The reader refuses the same samples as the pydantic model of the record, and names the same field.


def complete_record() -> dict[str, Any]:
    """Return a sample in which every nested record occurs."""
    timetable = TimetableRecord(
        writers=1,
        length_s=0.5,
        tolerance_s=0.1,
        allowed_share=0.05,
        messages=5,
        planned=1,
        done=1,
    )
    conditions = NodeConditions(node="a", over_s=9.0, devices=[DeviceBytes("m0", 1, 2)])
    return {
        **samples(STREAM, pairs=1)[1].as_dict(),
        "fom_extra": {"copy_b_s": 1.0},
        "writers": [asdict(FIRST_WRITER)],
        "timetable": asdict(timetable),
        "conditions": [asdict(conditions)],
    }


#: Kind of record -> keys by which it is found in the complete record.
_LOCATIONS: dict[Any, tuple[str | int, ...]] = {
    Sample: (),
    WriterRecord: ("writers", 0),
    TimetableRecord: ("timetable",),
    NodeConditions: ("conditions", 0),
    DeviceBytes: ("conditions", 0, "devices", 0),
}
#: Stands for the value of a field that is missing.
_MISSING = object()


def _invalid_values(hint: Any) -> list[object]:
    """Return values that do not have the type of a hint."""
    if get_origin(hint) is Annotated:
        return _invalid_values(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        types = [part for part in get_args(hint) if part is not NoneType]
        return _invalid_values(types[0])
    if get_origin(hint) is Literal:
        return ["sideways", 5]
    if get_origin(hint) is list:
        return [{}, "x", 5]
    if get_origin(hint) is dict:
        return [[], "x", 5, {"a": []}]
    invalid: dict[Any, list[object]] = {int: ["x", 1.5], float: ["x", []], str: [5, []]}
    return invalid.get(hint, ["x", 5])


def _invalid_fields() -> Iterator[Any]:
    """Yield the location of a record, the name of a field and an invalid value of the field."""
    for record, location in _LOCATIONS.items():
        hints = get_type_hints(record, include_extras=True)
        for field in fields(record):
            values = _invalid_values(hints[field.name])
            if NoneType not in get_args(hints[field.name]):
                values.append(None)
            if field.default is MISSING and field.default_factory is MISSING:
                values.append(_MISSING)
            field_id = ".".join(map(str, (*location, field.name)))
            yield from (pytest.param(location, field.name, value, id=field_id) for value in values)


@pytest.mark.parametrize(("location", "name", "value"), list(_invalid_fields()))
def test_the_reader_refuses_what_the_model_refuses_and_names_the_field(
    tmp_path: Path, location: tuple[str | int, ...], name: str, value: object
) -> None:
    sample: Any = complete_record()
    record = sample
    for key in location:
        record = record[key]
    if value is _MISSING:
        del record[name]
    else:
        record[name] = value
    with pytest.raises(pydantic.ValidationError):
        pydantic.TypeAdapter(Sample).validate_python(sample)
    with pytest.raises(InputError) as error:
        read_samples([file_of(tmp_path, json.dumps(sample) + "\n")])
    field = ".".join(map(str, (*location, name)))
    assert str(error.value).startswith(f"{tmp_path}/case.jsonl:1: {field}")


def test_a_sample_with_every_record_is_read(tmp_path: Path) -> None:
    path = file_of(tmp_path, json.dumps(complete_record()) + "\n")
    assert read_samples([path]).frame["key"].to_list() == [complete_record()["key"]]


def test_a_size_of_more_than_63_bits_is_refused(tmp_path: Path) -> None:
    record = complete_record()
    record["writers"][0]["message_b"] = 2**63
    path = file_of(tmp_path, json.dumps(record) + "\n")
    with pytest.raises(InputError) as error:
        read_samples([path])
    assert_message(str(error.value), f"{path}:1: writers.0.message_b", "9223372036854775808")
