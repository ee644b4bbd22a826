"""Counters as monitoring has them become the bytes per second that they were made from."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from records.errors import InputError
from records.traffic import formats, trace
from records.traffic.trace import Break, Trace
from tests.records.traffic.made import ETHERNET, IB, PLAIN, answer, counted, labels


def read(folder: Path, *texts: str) -> Trace:
    files = [folder / f"{index}.txt" for index in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    return formats.trace([formats.read(file) for file in files])


def rates(made: Trace, node: str = "n1") -> dict[int, float]:
    rows = made.seconds.filter(pl.col("node") == node)
    return dict(rows.select("time_s", "bytes").rows())


def test_a_range_of_prometheus_is_spread_over_its_steps(tmp_path: Path) -> None:
    # 1500 bytes in the 15 s from 430.781 to 445.781, and none in the next.
    values = [(1435781430.781, "1000"), (1435781445.781, "2500"), (1435781460.781, "2500")]
    made = read(tmp_path, answer([(labels(), values)]))
    found = rates(made)
    # Seconds that are covered in part, 430 and 460, are not known.
    assert sorted(found) == list(range(1435781431, 1435781460))
    assert found[1435781431] == found[1435781444] == pytest.approx(100, abs=0.01)
    assert found[1435781445] == pytest.approx(78.1, abs=0.01)
    assert found[1435781446] == 0
    assert made.header.resolution_s == pytest.approx(15)
    assert made.header.sources[0].metrics == [IB]
    assert not made.header.breaks


def test_devices_of_a_node_are_added_up_where_all_are_known(tmp_path: Path) -> None:
    first = [(100 + i, str(10 * i)) for i in range(6)]
    second = [(100 + i, str(5 * i)) for i in (0, 1, 2, 4, 5)]
    made = read(tmp_path, answer([(labels(), first), (labels(device="mlx5_1"), second)]))
    assert rates(made) == {100: 15, 101: 15, 104: 15}
    assert made.header.breaks == [Break("gap", "n1", "mlx5_1.1", 102, 104)]
    # Loopback is no traffic.
    each = [(labels(device=name, name=ETHERNET), [(1, "0"), (2, "8")]) for name in ("lo", "eth0")]
    assert rates(read(tmp_path, answer(each))) == {1: 8}
    # A node has a port, or none; of two counters the slower one's steps are what is resolved.
    each = [
        ({**labels(), "instance": name}, [(0, "0"), (step, "8"), (2 * step, "16")])
        for name, step in (("n1", 1), ("r:n2", 4), ("n3:x9", 1))
    ]
    made = read(tmp_path, answer(each))
    assert rates(made, "r:n2") == dict.fromkeys(range(8), 2)
    assert rates(made) == rates(made, "n3:x9") == {0: 8, 1: 8}
    assert made.header.resolution_s == 4


def test_a_counter_that_was_set_back_is_unknown_until_the_next_sample(tmp_path: Path) -> None:
    made = read(tmp_path, counted([5000, 5100, 5200, 50, 150]))
    assert rates(made) == {1000: 100, 1001: 100, 1003: 100}
    assert made.header.breaks == [Break("reset", "n1", "mlx5_0", 1002, 1003)]
    made = read(tmp_path, counted([5000, 5100, 5200]), counted([50, 150], start_s=1005))
    assert made.header.breaks == [Break("gap", "n1", "mlx5_0", 1002, 1005)]
    # It counts more than a float has digits.
    made = read(tmp_path, counted([2**60 + 512, 2**60 + 1024]))
    assert rates(made) == {1000: 512}


def test_a_counter_that_stopped_is_no_pause(tmp_path: Path) -> None:
    """InfiniBand's of 32 bits, in units of four bytes, stops until it is cleared (IBTA)."""
    most = 4 * ((1 << 32) - 1)
    counts = [most - 200, most - 120, most - 40, most, most, 20, 100]
    made = read(tmp_path, counted(counts, name=IB))
    assert rates(made) == {1000: 80, 1001: 80, 1005: 80}
    assert made.header.breaks == [Break("gap", "n1", "mlx5_0.1", 1002, 1005)]
    assert 1003 in rates(read(tmp_path, counted(counts, name=ETHERNET)))
    # What one device of two counts is not all that arrived.
    stopped, other = ([(at, str(count)) for at in (1, 2)] for count in (most, 5))
    with pytest.raises(InputError, match="no whole second"):
        read(tmp_path, answer([(labels(), stopped), (labels(device="mlx5_1"), other)]))


@pytest.mark.parametrize("until_s", [35, 36])
def test_a_gap_is_not_filled(tmp_path: Path, until_s: int) -> None:
    """One begins beyond one and a half times the usual interval, of 10 s."""
    at = [0, 10, 20, until_s, until_s + 10]
    made = read(tmp_path, answer([(labels(), [(each, str(each)) for each in at])]))
    missing = range(20, until_s) if until_s > 35 else ()
    assert rates(made) == dict.fromkeys(set(range(until_s + 10)) - set(missing), 1)
    assert made.header.breaks == [Break("gap", "n1", "mlx5_0.1", 20, until_s) for _ in missing[:1]]


def test_files_that_overlap_are_one_counter(tmp_path: Path) -> None:
    made = read(tmp_path, counted([0, 1, 2]), counted([2, 3], start_s=1002))
    assert rates(made) == {1000: 1, 1001: 1, 1002: 1}
    assert [each.name for each in made.header.sources] == ["0.txt", "1.txt"]
    with pytest.raises(InputError, match=r"n1 mlx5_0 1002\.0: count: 2 and 3 found"):
        read(tmp_path, counted([0, 1, 2]), counted([3, 4], start_s=1002))


def test_plain_bytes_are_those_of_the_second_that_begins(tmp_path: Path) -> None:
    made = read(tmp_path, PLAIN)
    assert rates(made) == {100: 0, 101: 1000, 102: 1000, 103: 0, 104: 0, 105: 500, 106: 0, 109: 0}
    assert made.header.breaks == [Break("gap", "n1", "", 107, 109)]
    assert made.header.resolution_s == 1


def test_a_trace_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = read(tmp_path, PLAIN)
    made.save(tmp_path / "t.parquet")
    again = trace.load(tmp_path / "t.parquet")
    assert again.header == made.header
    assert again.seconds.equals(made.seconds)
    (tmp_path / "other.parquet").write_bytes(b"PAR1")
    pl.DataFrame({"node": ["n1"]}).write_parquet(tmp_path / "third.parquet")
    made.seconds.write_parquet(tmp_path / "fourth.parquet")
    for name in ("other", "third", "fourth"):
        with pytest.raises(InputError, match=f"{name}.parquet: not a trace"):
            trace.load(tmp_path / f"{name}.parquet")
    seconds = [made.seconds.with_columns(bytes=pl.lit(x)) for x in (-1.0, None, float("inf"))]
    for table in (*(each.cast(made.seconds.schema) for each in seconds), made.seconds.head(0)):
        Trace(made.header, table).save(tmp_path / "t.parquet")
        with pytest.raises(InputError, match=r"t\.parquet: a trace of another version, or damaged"):
            trace.load(tmp_path / "t.parquet")
    Trace(replace(made.header, schema=1), made.seconds).save(tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"t\.parquet: a trace of another version"):
        trace.load(tmp_path / "t.parquet")


MATRIX = answer([])
SCRAPED = [(i, str(i // 2 * 50)) for i in range(21)]


def test_a_few_steps_or_different_ones_are_those_of_the_traffic(tmp_path: Path) -> None:
    even, other = ([(i, str(i // every * 50)) for i in range(21)] for every in (1, 3))
    for values in (SCRAPED[:20], even):  # nine steps, and steps at each scrape
        assert len(rates(read(tmp_path, answer([(labels(), values)])))) == len(values) - 1
    each = [(labels(), SCRAPED), (labels(device="mlx5_1"), other)]
    assert len(rates(read(tmp_path, answer(each)))) == 20


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello", "of no known format"),
        ("{", "0.txt: "),
        ('{"status": "error"}', "status: 'error' found"),
        ('{"status": "success", "data": {"resultType": "vector"}}', "'vector' found"),
        (MATRIX, "no sample"),
        (answer([({"__name__": "up"}, [])]), r"result\.0\.metric\.__name__: 'up' found"),
        (answer([({"instance": "n1:9100"}, [])]), "nothing found.*without rate"),
        (answer([({"__name__": IB}, [])]), r"instance: missing"),
        (answer([(labels(), [(1, "NaN")])]), "nan found"),
        (answer([(labels(), [(1, "x")])]), r"values: allowed: \[\["),
        (answer([(labels(), [(1, "1")])]), "no whole second"),
        (answer([(labels(), [(1, "1"), (31_622_402, "2")])]), "allowed: Unix times"),
        (answer([(labels(), [(-9, "1"), (-8, "2")])]), "from -9 to -8 s found"),
        (answer([(labels(), [(1, "1"), (2, "2", 3)])]), "values: allowed"),  # type: ignore[list-item]
        (answer([(labels(), SCRAPED), (labels("n2"), [(1, "1")])]), "at one of 2 samples"),
        ('{"status": "success", "data": [1]}', "nothing found; allowed: 'matrix'"),
        (MATRIX.replace("[]", "{}"), "'matrix' found"),
        (MATRIX.replace("[]", "[7]"), r"result\.0\.metric"),
        (
            answer([(labels(name=n), [(1, "1"), (2, "2")]) for n in (IB, ETHERNET)]),
            "n1: metric: node_infi.* and node_netw.*; allowed: one",
        ),
        ("time_s,node,bytes\n1.5,n1,3\n", "time_s: '1.5' found"),
        ("time_s,node,bytes\n1,n1,3\n1,n1,4\n", "n1  1.0: count: 3 and 4 found"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        read(tmp_path, text)
    assert "\n" not in str(error.value)
