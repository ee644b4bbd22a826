"""Texts of the kernel, in the formats of proc_pid_stat(5) and cpuset(7)."""

from pathlib import Path

import pytest

from records.kernel_text import (
    ProcessStat,
    cpu_list,
    cpu_list_text,
    numa_node_of,
    number,
    pids,
    read,
    stat_of,
    stats,
    with_descendants,
)

#: A line of /proc/PID/stat. The first column after the name is the state, with index 0 here. The
#: column with index i has the value 100 + i; proc(5) counts it as column i + 3. The parent has
#: index 1, flags 6, user and system time 11 and 12, those of ended children 13 and 14, start 19.
STAT = " ".join(["42 (a) b (c) R", *map(str, range(101, 141))])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" 7\n", 7), ("-1", -1), ("9" * 20, int("9" * 20)),
        ("9" * 21, None), ("", None), ("0x1", None), ("1.5", None), ("\u0661", None),
    ],
)  # fmt: skip
def test_numbers(text: str, value: int | None) -> None:
    assert number(text) == value


def test_lists_of_cpus() -> None:
    texts = {"": [], "5": [5], "0-2,8": [0, 1, 2, 8], "1,3": [1, 3], "65535": [65535]}
    for text, cpus in texts.items():
        assert (cpu_list(text), cpu_list_text(reversed(cpus))) == (cpus, text)
    assert cpu_list(" 0-0,,3-4,\n") == [0, 3, 4]
    for text in ("3-1", "-1", "x", "65536", "0-65536", "0-3-5"):
        with pytest.raises(ValueError, match="allowed: CPUs such as 0-3,8"):
            cpu_list(text)


def test_a_process_whose_name_has_brackets(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text(STAT)
    assert stat_of(tmp_path) == ProcessStat(
        "a) b (c",
        "R",
        101,
        106,
        used_ticks=111 + 112,
        children_ticks=113 + 114,
        start_ticks=119,
        cpu=136,
    )
    (tmp_path / "stat").write_text(STAT.rpartition(" 119")[0])
    assert stat_of(tmp_path) is None
    assert stat_of(tmp_path / "none") is None


def test_processes_and_their_descendants(tmp_path: Path) -> None:
    assert (read(tmp_path / "none"), pids(tmp_path / "none")) == ("", [])
    for pid, parent in {1: 0, 2: 1, 3: 2, 4: 9, 5: 6, 6: 5}.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(STAT.replace("101", str(parent)))
    for name in ("7", "self"):  # process 7 has ended, so it has no files
        (tmp_path / name).mkdir()
    assert sorted(pids(tmp_path)) == [1, 2, 3, 4, 5, 6, 7]
    processes = dict(stats(tmp_path))
    assert sorted(processes) == [1, 2, 3, 4, 5, 6]
    assert [with_descendants([root], processes) for root in (1, 2, 5, 9)] == [
        {1, 2, 3},
        {2, 3},
        {5, 6},
        set(),
    ]


@pytest.mark.parametrize(("text", "node"), [("1\n", 1), ("0\n", 0), ("-1\n", None), (None, None)])
def test_the_numa_node_of_a_device(tmp_path: Path, text: str | None, node: int | None) -> None:
    """Linux writes -1 for a device that is near no node; a kernel without NUMA has no file."""
    if text is not None:
        (tmp_path / "numa_node").write_text(text)
    assert numa_node_of(tmp_path) == node
