"""Lines that the programs of all injectors really printed: rows, totals and faults.

A row is the rate of the last second or so. A total is the summary of a finished short write.
"""

from statistics import median

import polars as pl
import pytest

from analysis.effects.verdict import emulation_caveats
from conductor.injectors import INJECTORS
from conductor.injectors.base import Arrived, Fault, Row
from tests.conductor.injectors.printed import captured, meanings, writer

MIB = 1 << 20
_SHORT = {"messages": 1000}
_LARGE = {"message_b": 64 * MIB}

#: Injector, captured output, fields of the writer, and the rates in MiB/s. The programs print 'MB'
#: but mean MiB: for ucx_perftest, the printed time of a message of known size agrees with the
#: printed rate only if an MB has 2^20 bytes. That time is printed to a nanosecond, so a time of
#: 4.072 us is exact to a part in 8000.
ROWS = [
    ("perftest", "D5.client", {}, [65.27]),
    ("perftest", "rate20M_SW_b1.client", {}, [20.0]),  # what a throttled writer achieved
    ("perftest", "read_D5.client", {}, [52.62]),
    ("perftest", "D5_gbits.client", {}, [67.5e6 / MIB]),  # 0.54 Gb/s; a Gb is 10^9 bits
    # A row a second; the last one, at SIGTERM or SIGINT, lacks its newline.
    ("perftest", "read_inf_D1.client", {}, [21.83, 35.87, 22.09, 47.45]),
    ("perftest", "inf_D1_file_INT.client", {}, [54.95, 64.98, 64.97, 64.97]),
    # A client whose server was killed.
    ("perftest", "inf_srvKILL.client", {}, [2.31, 4.56, *[0.0] * 7]),
    ("ucx", "posix_64M.client", _LARGE, [1075.44, 3835.62, 3164.18, 2611.26]),
    ("ucx", "posix_64k.client", {}, [13951.82, 15349.38, 14403.69]),
    ("ucx", "tcp_64k_sleep.client", {}, [240.36, 522.05, 526.01, 503.52]),
    ("ucx", "get_64M.client", _LARGE, [3314.05, 1947.31, 1846.40, 2116.92]),
    ("ucx", "get_64k.client", {}, [1644.28, 2243.82, 3835.99]),
    ("ucx", "get_tcp_64k_sleep.client", {}, [424.21, 220.79, 236.06, 234.81]),
]


@pytest.mark.parametrize(("injector", "name", "fields", "rates_mib_s"), ROWS)
def test_rates_of_rows_are_converted_from_their_unit(injector, name, fields, rates_mib_s):
    rows = captured(injector, name, **fields)
    rel = 2e-4 if injector == "ucx" else 1e-6
    assert [row.rate_b_s / MIB for row in rows] == pytest.approx(rates_mib_s, rel=rel)


@pytest.mark.parametrize(
    ("name", "messages_1_s"),
    [
        # The middle 3 s of 5 are measured: 2528 reads, or 3120 writes.
        ("read_D5.client", 2528 / 3),
        ("D5_gbits.client", 3120 / 3),
        ("inf_D1_file_INT.client", 1040),
    ],
)
def test_rates_of_perftest_agree_with_its_messages_per_second(name, messages_1_s):
    last = captured("perftest", name)[-1]
    assert last.rate_b_s == pytest.approx(messages_1_s * 65536, rel=0.02)


#: Injector, captured output, fields of the writer; then messages, rate, and the time that the same
#: line gives, or None.
TOTALS = [
    ("perftest", "n1000.client", _SHORT, 1000, 63.27 * MIB, None),
    ("perftest", "read_n1000.client", _SHORT, 1000, 56.28 * MIB, None),
    ("ucx", "finished.client", {"message_b": MIB}, 20000, 10311.16 * MIB, 20000 * 96.982e-6),
    ("ucx", "get_finished.client", {"message_b": MIB}, 20000, 1414.08 * MIB, None),
]


@pytest.mark.parametrize(("injector", "name", "fields", "messages", "rate_b_s", "seconds"), TOTALS)
def test_the_summary_of_a_finished_writer_is_its_total_and_no_row(
    injector, name, fields, messages, rate_b_s, seconds
):
    *rows, total = captured(injector, name, **fields)
    assert {type(row) for row in rows} <= {Row}
    assert len(rows) == {"finished.client": 1, "get_finished.client": 13}.get(name, 0)
    assert (total.messages, total.rate_b_s) == (messages, rate_b_s)
    # In a trace of ib_write_bw between two virtual machines, the row came 0.31 s after the last
    # write. In this time, 200 waits that grow from 0.1 ms to 2.09 ms take 0.219 s.
    assert total.print_delay_s == pytest.approx(0.219 if injector == "perftest" else 0.0)
    if seconds:
        size_b = messages * fields.get("message_b", 65536)
        assert size_b / rate_b_s == pytest.approx(seconds, rel=1e-4)


def test_a_row_of_perftest_covers_its_own_second_and_not_the_time_since_the_last_row():
    """The stamps of the log are 1.08 s apart, then 1.37 s to 1.43 s. Each row covers 1.00 s."""
    rows = captured("perftest", "inf_stamped.client")
    rates = [45.43, 54.89, 56.98, 55.98, 53.98]
    assert [row.rate_b_s / MIB for row in rows] == pytest.approx(rates)
    assert [row.over_s for row in rows[1:]] == pytest.approx([1.002, 1.0, 1.0, 1.0], abs=0.003)
    assert rows[1].over_s == pytest.approx(880 * 65536 / (54.89 * MIB))
    # perftest measures its clock before it prints a row.
    assert [row.print_delay_s for row in rows] == pytest.approx([0.219] * len(rows))


#: Injector, captured output, and the beginning of the first fault. All meanings are faults.
FAULTS = [
    ("perftest", "srvTERM.client", "ethernet_read_keys: Couldn't read remote address"),
    ("perftest", "noserver.client", "Couldn't connect to 10.77.0.1:18515"),
    ("perftest", "nodev.server", "IB device mlx5_0 not found"),
    ("perftest", "rate500M_noType.client", "Failed: Unknown rate limit value"),
    ("perftest", "cliKILL.server", "ethernet_read_keys: Couldn't read remote address"),
    ("ucx", "no_server.client", "client failed. connect() failed: Connection refused"),
    ("ucx", "zero_size.client", "Message size too small, need to be at least 1"),
    ("ucx", "no_host.client", "getaddrinfo(server:no.such.host.invalid, port:27373) error: [Name"),
    (
        "ucx",
        "no_transport.client",
        "no active messages transport to <no debug data>: self/memory - iface mismatch",
    ),
]


@pytest.mark.parametrize(("injector", "name", "text"), FAULTS)
def test_a_failure_is_a_fault_and_never_a_row(injector, name, text):
    meant = captured(injector, name)
    assert {type(meaning) for meaning in meant} == {Fault}
    assert meant[0].text.startswith(text)
    if injector == "perftest":  # lines that both ends always print are not part of the fault
        assert meant[0].text == text


def test_over_tcp_a_dead_target_of_ucx_ends_in_a_fault():
    """Before the fault, the origin reports hundreds of GB/s. So its rows alone prove nothing."""
    meant = captured("ucx", "server_killed_tcp.client")
    assert isinstance(meant[-1], Fault)
    assert max(row.rate_b_s for row in meant if isinstance(row, Row)) > 400e9


#: Lines of `ib_write_bw`, made with its format strings (`strings ib_write_bw`, 6.06).
_HEADER = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]"
_ROW = " 65536      3136             0.00               65.27  \t\t   0.001044"


@pytest.mark.parametrize(
    ("injector", "line"),
    [
        ("perftest", _ROW),  # no header has named the unit of its rate
        *(("mpi_put", line) for line in ("row 0.250000 s 65536 B, 3", "arrived 5 B", "")),
        *(("mpi_put", line) for line in ("row 0.000000 s 65536 B", "row 0.250000 s 65536")),
        *(("mpi_put", line) for line in ("sent 5 B", "library: MPICH Version: 5.0.1")),
    ],
)
def test_other_lines_mean_nothing(injector, line):
    assert meanings(injector, line) == []


@pytest.mark.parametrize(
    ("injector", "line", "meaning"),
    [
        # ib_write_bw 6.06 prints these if --run_infinitely has a limit, and if there is no device.
        *(
            ("perftest", f" {line}", Fault(line))
            for line in (
                "run_infinitely does not support rate limit feature yet",
                "Unable to find the Infiniband/RoCE device",
            )
        ),
        ("perftest", _HEADER.replace("MB/", "TB/"), Fault("rates in unknown unit 'TB/sec'")),
        ("mpi_put", "row 0.500000 s 6000000000 B", Row(12e9, 0.5)),
    ],
)
def test_lines_whose_meaning_is_worked_out_by_hand(injector, line, meaning):
    assert meanings(injector, line) == [meaning]


@pytest.mark.parametrize("more", ["", "\t    12.50", "        40.00              0.000600"])
@pytest.mark.parametrize("message", ["ethernet_read_keys: Couldn't read", " 2 of 3 bytes read"])
def test_further_columns_of_a_row_of_perftest_are_ignored_but_text_after_them_is_a_fault(
    more, message
):
    parser = INJECTORS["perftest"].parser(writer())
    assert parser.parse(_HEADER + "    CPU_Util[%]\n") is None
    assert parser.parse(_ROW + more + "\n").rate_b_s == 65.27 * MIB
    assert parser.parse(_ROW + more + message + "\n") == Fault(message.strip())


# What the target of mpi_put finds in its memory.


@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_rows_are_quarters_of_a_second_and_the_target_finds_as_much(name):
    meant = captured("mpi_put", name)
    rows = [meaning for meaning in meant if isinstance(meaning, Row)]
    last = [meaning for meaning in meant if isinstance(meaning, Arrived)][-1]
    assert len(rows) >= 3
    assert min(row.over_s for row in rows) >= 0.25
    assert median(row.over_s for row in rows) < 0.5
    assert last.transport == "shared memory"
    claimed_b = sum(row.rate_b_s * row.over_s for row in rows)
    late_b = 2 * max(row.rate_b_s * row.over_s for row in rows)
    assert last.bytes_b == pytest.approx(claimed_b, abs=late_b)


@pytest.mark.parametrize("name", ["mpich_tcp", "openmpi_tcp"])
def test_writes_to_a_target_that_polls_count_as_emulation(name):
    meant = captured("mpi_put", name)
    assert {meaning.transport for meaning in meant[-4:] if isinstance(meaning, Arrived)} == {
        "two-sided"
    }
    (caveat,) = emulation_caveats(pl.Series(["two-sided"]))
    assert "not RDMA" in caveat


def test_the_transport_of_messages_that_the_target_receives_is_receives():
    line = "arrived 67108864 B by unshared memory, target receives, 0.000100 s of its processor"
    assert meanings("mpi_put_receive", line) == [Arrived(67108864, "receives")]
    (caveat,) = emulation_caveats(pl.Series(["receives"]))
    assert "two-sided" in caveat
    assert "not RDMA" in caveat


def test_a_target_whose_progress_thread_receives_is_two_sided():
    """A gigabyte arrives in a second.

    If the target's process uses 0.04 s of processor time for it, this is below the limit for
    one-sided writes; 0.06 s are above it.
    """
    row = "row 1.000000 s 1000000000 B\n"
    line = "arrived 1000000000 B by unshared memory, target sleeps, {} s of its processor\n"
    # The target of a slow writer looks at its memory as often. It uses 0.2 % of a core for this,
    # which does not mean that it receives.
    slow = "row 1.000000 s 1000000 B\n"
    for rows, seconds, transport in (
        (row, "0.040000", "RDMA"),
        (row, "0.060000", "two-sided"),
        (slow, "0.002000", "RDMA"),
    ):
        assert meanings("mpi_put", rows + line.format(seconds))[-1].transport == transport
