"""Lines of ib_write_bw, as it really printed them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nimc.node.injectors import perftest
from nimc.node.injectors.base import Fault, Row, Total, Writer
from nimc.records.treatment import Burst

CAPTURES = Path(__file__).parents[3] / "captures" / "perftest"
MIB = 1048576


def meanings(name, **asked):
    parser = perftest.Perftest().parser(writer(**asked))
    text = (CAPTURES / f"{name}.txt").read_text()
    # The exit status was noted behind the last line, which may lack its newline.
    lines = re.sub(r"# (client |server )?rc=.*\n", "", text).splitlines(keepends=True)
    return [meaning for line in lines if (meaning := parser.parse(line)) is not None]


def writer(**changes):
    asked = {
        "index": 0,
        "origin": "o",
        "target": "t",
        "address": "10.1.0.2",
        "port": 20001,
        "message_b": 65536,
    }
    return Writer(**{**asked, **changes})


def test_a_row_is_in_mib_though_the_header_says_mb():
    (row,) = meanings("D5.client")
    assert row.rate_b_s == 65.27 * MIB


def test_rows_of_reads_are_as_those_of_writes():
    (row,) = meanings("read_D5.client")
    assert row.rate_b_s == 52.62 * MIB
    # The middle 3 s of 5 are measured: 2528 reads of 64 KiB in them.
    assert row.rate_b_s == pytest.approx(2528 * 65536 / 3, rel=0.01)
    assert meanings("read_n1000.client", messages=1000) == [
        Total(1000, 56.28 * MIB, after_s=pytest.approx(0.219))
    ]


def test_endless_reads_print_a_row_a_second():
    # Stopped by SIGTERM, its last row lacks the newline.
    rows = meanings("read_inf_D1.client")
    assert [row.rate_b_s / MIB for row in rows] == pytest.approx([21.83, 35.87, 22.09, 47.45])


def test_gbits_are_decimal_as_the_header_says():
    (row,) = meanings("D5_gbits.client")
    assert row.rate_b_s == pytest.approx(67.5e6)  # 0.54 Gb/s of 10^9 bits, eight a byte
    # The window of three seconds, 3120 writes in it: the same rate within what two decimals hold.
    assert row.rate_b_s == pytest.approx(3120 * 65536 / 3, rel=0.02)


def test_the_only_row_of_a_short_write_is_its_total():
    # Traced between two virtual machines: 0.31 s from the last write to the row, of which 200 waits
    # that grow from 0.1 to 2.09 ms take 0.219 s.
    total = Total(1000, 63.27 * MIB, after_s=pytest.approx(0.219))
    assert meanings("n1000.client", messages=1000) == [total]


@pytest.mark.parametrize(("messages", "given"), [(46000, "46000"), (1, "5")])
def test_both_ends_of_a_short_write_know_its_messages(messages, given):
    injector, short = perftest.Perftest(), writer(messages=messages)
    for command in (injector.target_command(short), injector.origin_command(short)):
        assert command[command.index("-n") + 1] == given
        assert "-D" not in command


def test_a_last_row_without_newline_is_a_row():
    rows = meanings("inf_D1_file_INT.client")
    # 65536 bytes 880 and three times 1040 times, a row a second.
    printed_b_s = [times * 65536 for times in (880, 1040, 1040, 1040)]
    assert [row.rate_b_s for row in rows] == pytest.approx(printed_b_s, rel=0.001)
    assert rows[-1].rate_b_s == 64.97 * MIB
    assert len(meanings("inf_D2_file_TERM.client")) == 2


def test_stamps_of_a_log_are_no_part_of_the_line():
    assert [row.rate_b_s / MIB for row in meanings("inf_stamped.client")] == pytest.approx(
        [45.43, 54.89, 56.98, 55.98, 53.98]
    )


def test_a_row_is_of_its_own_second_and_not_of_the_time_since_the_last_one():
    """The stamps of the log are 1.08 s, then 1.37 to 1.43 s apart; the rows are of 1.00 s each."""
    rows = [row for row in meanings("inf_stamped.client") if isinstance(row, Row)]
    assert [row.over_s for row in rows[1:]] == pytest.approx([1.002, 1.0, 1.0, 1.0], abs=0.003)
    assert rows[1].over_s == pytest.approx(880 * 65536 / (54.89 * MIB))
    # It measures the clock before it prints.
    assert [row.after_s for row in rows] == pytest.approx([0.219] * len(rows))


def test_the_achieved_rate_of_a_throttled_writer_is_read():
    (row,) = meanings("rate20M_SW_b1.client")
    assert row.rate_b_s == 20.0 * MIB


def test_an_endless_client_that_lost_its_server_reports_zero_and_no_error():
    rows = meanings("inf_srvKILL.client")
    assert len(rows) == 9
    assert [row.rate_b_s > 0 for row in rows] == [True, True] + 7 * [False]
    assert all(row.rate_b_s == 0 for row in rows[2:])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("srvTERM.client", "ethernet_read_keys: Couldn't read remote address"),
        ("noserver.client", "Couldn't connect to 10.77.0.1:18515"),
        ("nodev.server", "IB device mlx5_0 not found"),
        ("rate500M_noType.client", "Failed: Unknown rate limit value"),
        ("cliKILL.server", "ethernet_read_keys: Couldn't read remote address"),
    ],
)
def test_a_failure_is_a_fault_and_never_a_row(name, text):
    found = meanings(name)
    assert found[0] == Fault(text)
    assert all(isinstance(meaning, Fault) for meaning in found)


@pytest.mark.parametrize(
    "line",
    [
        # ib_write_bw 6.06: a limit together with --run_infinitely, and a host without devices.
        " run_infinitely does not support rate limit feature yet",
        " Unable to find the Infiniband/RoCE device",
    ],
)
def test_what_it_refuses_is_a_fault(line):
    assert perftest.Perftest().parser(writer()).parse(line + "\n") == Fault(line.strip())


def test_a_row_before_any_header_has_no_unit_and_is_none():
    parser = perftest.Perftest().parser(writer())
    assert parser.parse(" 65536      3136     0.00     65.27     0.001044\n") is None


#: As the program's format strings make them (`strings ib_write_bw`, 6.06): no capture has
#: `--cpu_util`, whose column is `\t    %-3.2f`.
_HEADER = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]"
_ROW = " 65536      3136             0.00               65.27  \t\t   0.001044"
_UTIL = "\t    12.50"
_PORTS = "   BW Port1[MB/sec]   MsgRate Port1[Mpps]   BW Port2[MB/sec]   MsgRate Port2[Mpps]"


@pytest.mark.parametrize(
    ("columns", "more"),
    [
        ("    CPU_Util[%]", _UTIL),
        (_PORTS, "        40.00              0.000600              25.27              0.000444"),
        ("", _UTIL),  # a number is no message, whatever it means
    ],
)
def test_more_columns_are_no_error(columns, more):
    parser = perftest.Perftest().parser(writer())
    assert parser.parse(_HEADER + columns + "\n") is None
    row = parser.parse(_ROW + more + "\n")
    assert isinstance(row, Row)
    assert row.rate_b_s == 65.27 * MIB


@pytest.mark.parametrize(("columns", "more"), [("", ""), ("    CPU_Util[%]", _UTIL)])
@pytest.mark.parametrize("message", ["ethernet_read_keys: Couldn't read", " 2 of 3 bytes read"])
def test_text_after_the_last_column_is_an_error(columns, more, message):
    parser = perftest.Perftest().parser(writer())
    parser.parse(_HEADER + columns + "\n")
    assert parser.parse(_ROW + more + message + "\n") == Fault(message.strip())


def test_a_header_in_an_unknown_unit_is_a_fault():
    parser = perftest.Perftest().parser(writer())
    line = " #bytes     #iterations    BW peak[TB/sec]    BW average[TB/sec]   MsgRate[Mpps]"
    assert parser.parse(line) == Fault("rates in unknown unit 'TB/sec'")


def test_full_rate_writes_until_it_is_stopped(monkeypatch):
    monkeypatch.setattr(perftest, "_help", lambda _: "")
    injector = perftest.Perftest()
    both = "ib_write_bw -F -p 20001 -s 65536 -d mlx5_0 --run_infinitely -D 1"
    asked = writer(device="mlx5_0")
    assert injector.target_command(asked) == both.split()
    assert injector.origin_command(asked) == [*both.split(), "10.1.0.2"]
    assert injector.row_source(asked) == "output"


def test_a_throttled_writer_is_limited_by_software_message_by_message(monkeypatch):
    monkeypatch.setattr(perftest, "_help", lambda _: "")
    injector = perftest.Perftest()
    command = injector.origin_command(writer(rate_b_s=500e6))
    assert " ".join(command).endswith(
        "-D 604800 --rate_limit 4 --rate_units g --rate_limit_type SW --burst_size 1 10.1.0.2"
    )
    assert "--run_infinitely" not in command
    assert injector.row_source(writer(rate_b_s=500e6)) == "counter"


def test_a_burst_is_so_many_messages_that_the_period_has_the_mean_rate(monkeypatch):
    """500 MB/s for 100 ms are 50 MB: 762.9 messages of 64 KiB. One message is the least."""
    monkeypatch.setattr(perftest, "_help", lambda _: "")
    injector, burst = perftest.Perftest(), Burst(0.01, 0.09)
    command = " ".join(injector.origin_command(writer(rate_b_s=500e6, burst=burst)))
    assert command.endswith("--rate_limit_type SW --burst_size 763 10.1.0.2")
    assert "--rate_limit 4 --rate_units g" in command
    slow = " ".join(injector.origin_command(writer(rate_b_s=100e3, burst=burst)))
    assert "--burst_size 1 " in slow


@pytest.mark.parametrize(
    ("rate_b_s", "gbit_s"),
    [(312.5e6, "2.5"), (1e6, "2.5"), (1.6e9, "14"), (8.9e9, "80"), (90e9, "300")],
)
def test_the_hardware_holds_the_rate_of_its_table_that_is_next(monkeypatch, rate_b_s, gbit_s):
    monkeypatch.setattr(perftest, "_help", lambda _: "")
    asked = writer(rate_b_s=rate_b_s, limiter="hardware")
    command = " ".join(perftest.Perftest().origin_command(asked))
    assert f" --rate_limit {gbit_s} --rate_units g --rate_limit_type HW 10.1.0.2" in command
    # What the program prints where it does not know a rate.
    known = (CAPTURES / "rate500M_noType.client.txt").read_text()
    assert re.search(rf"^\s+{gbit_s} Gbps", known, re.MULTILINE)


@pytest.mark.skipif(shutil.which("ib_write_bw") is None, reason="ib_write_bw is not installed")
def test_perftest_paces_no_packets_of_writes():
    """So there is no such limiter."""
    asked = ["ib_write_bw", "--rate_limit", "100", "--rate_units", "M", "--rate_limit_type", "PP"]
    done = subprocess.run(asked, capture_output=True, text=True)
    assert done.returncode == 1
    assert "only supported for Raw Ethernet" in done.stdout + done.stderr


def test_perftest_may_not_bind_itself_where_it_would(monkeypatch):
    monkeypatch.setattr(perftest, "_help", lambda _: "  --disable_numa Disable NUMA ...")
    assert "--disable_numa" in perftest.Perftest().target_command(writer())


def test_a_missing_program_is_named_with_its_package(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert perftest.Perftest().missing() == (
        "ib_write_bw is missing: 'apt install perftest', 'dnf install perftest', or, where drivers"
        " are from MLNX_OFED or DOCA-OFED, the package perftest that comes with them"
    )


@pytest.mark.skipif(
    perftest.Perftest().missing() is not None, reason=f"perftest: {perftest.Perftest().missing()}"
)
@pytest.mark.parametrize("rate_b_s", [None, 20e6])
def test_the_installed_version_takes_our_options(rate_b_s):
    """It looks at its options before it looks for a device, and this one does not exist."""
    asked = writer(device="no_such_device", rate_b_s=rate_b_s)
    answer = subprocess.run(
        perftest.Perftest().target_command(asked), capture_output=True, text=True, timeout=20
    )
    said = answer.stdout + answer.stderr
    assert answer.returncode == 1
    assert "Unable to find the Infiniband/RoCE device" in said
    assert "unrecognized option" not in said
    assert "support" not in said
