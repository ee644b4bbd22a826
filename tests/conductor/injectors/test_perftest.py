"""Lines of ib_write_bw, as it really printed them."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from conductor.injectors import perftest
from conductor.injectors.base import Fault, Total, Writer
from records.treatment import Burst
from tests.conductor.conftest import needs

CAPTURES = Path(__file__).parents[2] / "captures" / "perftest"
MIB = 1048576


PERFTEST = perftest.Perftest()


@pytest.fixture(autouse=True)
def _version_without_a_binding_of_its_own(request, monkeypatch):
    if "installed" not in request.node.name:
        monkeypatch.setattr(perftest, "_help", lambda _: "")


def meanings(name, **asked):
    parser = PERFTEST.parser(writer(**asked))
    text = (CAPTURES / f"{name}.txt").read_text()
    # The exit status was noted behind the last line, which may lack its newline.
    lines = re.sub(r"# (client |server )?rc=.*\n", "", text).splitlines(keepends=True)
    return [meaning for line in lines if (meaning := parser.parse(line)) is not None]


def writer(**changes):
    return replace(Writer(0, "o", "t", "10.1.0.2", 20001, 65536), **changes)


@pytest.mark.parametrize(
    ("name", "rates_mib_s", "by_hand_b_s"),
    [
        ("D5.client", [65.27], None),  # MiB, though the header says MB
        ("rate20M_SW_b1.client", [20.0], None),  # what a throttled writer achieved
        # The middle 3 s of 5 are measured: 2528 reads, or 3120 writes, of 64 KiB in them.
        ("read_D5.client", [52.62], 2528 * 65536 / 3),
        # 0.54 Gb/s of 10^9 bits, eight a byte.
        ("D5_gbits.client", [67.5e6 / MIB], 3120 * 65536 / 3),
        # A row a second; the last one, at SIGTERM or SIGINT, lacks its newline.
        ("read_inf_D1.client", [21.83, 35.87, 22.09, 47.45], None),
        ("inf_D1_file_INT.client", [54.95, 64.98, 64.97, 64.97], 1040 * 65536),
        # A client whose server was killed.
        ("inf_srvKILL.client", [2.31, 4.56, *[0.0] * 7], None),
    ],
)
def test_rows_have_the_rate_of_their_unit(name, rates_mib_s, by_hand_b_s):
    rows = meanings(name)
    assert [row.rate_b_s / MIB for row in rows] == pytest.approx(rates_mib_s)
    if by_hand_b_s:
        assert rows[-1].rate_b_s == pytest.approx(by_hand_b_s, rel=0.02)


def test_the_only_row_of_a_short_write_is_its_total():
    # Traced between two virtual machines: 0.31 s from the last write to the row, of which 200 waits
    # that grow from 0.1 to 2.09 ms take 0.219 s.
    total = Total(1000, 63.27 * MIB, after_s=pytest.approx(0.219))
    assert meanings("n1000.client", messages=1000) == [total]
    of_reads = replace(total, rate_b_s=56.28 * MIB)
    assert meanings("read_n1000.client", messages=1000) == [of_reads]


@pytest.mark.parametrize(("messages", "given"), [(46000, "46000"), (1, "5")])
def test_both_ends_of_a_short_write_know_its_messages(messages, given):
    short = writer(messages=messages)
    for command in (PERFTEST.target_command(short), PERFTEST.origin_command(short)):
        assert command[command.index("-n") + 1] == given
        assert "-D" not in command


def test_a_row_is_of_its_own_second_and_not_of_the_time_since_the_last_one():
    """The stamps of the log are 1.08 s, then 1.37 to 1.43 s apart; the rows are of 1.00 s each."""
    rows = meanings("inf_stamped.client")
    rates = [45.43, 54.89, 56.98, 55.98, 53.98]
    assert [row.rate_b_s / MIB for row in rows] == pytest.approx(rates)
    assert [row.over_s for row in rows[1:]] == pytest.approx([1.002, 1.0, 1.0, 1.0], abs=0.003)
    assert rows[1].over_s == pytest.approx(880 * 65536 / (54.89 * MIB))
    # It measures the clock before it prints.
    assert [row.after_s for row in rows] == pytest.approx([0.219] * len(rows))


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


def test_other_lines():
    parser = PERFTEST.parser(writer())
    # ib_write_bw 6.06: a limit together with --run_infinitely, and a host without devices.
    for line in (
        " run_infinitely does not support rate limit feature yet",
        " Unable to find the Infiniband/RoCE device",
    ):
        assert parser.parse(line + "\n") == Fault(line.strip())
    # A row without a known unit is none.
    assert parser.parse(" 65536      3136     0.00     65.27     0.001044\n") is None
    line = " #bytes     #iterations    BW peak[TB/sec]    BW average[TB/sec]   MsgRate[Mpps]"
    assert parser.parse(line) == Fault("rates in unknown unit 'TB/sec'")


#: As the program's format strings make them (`strings ib_write_bw`, 6.06).
_HEADER = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]"
_ROW = " 65536      3136             0.00               65.27  \t\t   0.001044"


@pytest.mark.parametrize("more", ["", "\t    12.50", "        40.00              0.000600"])
@pytest.mark.parametrize("message", ["ethernet_read_keys: Couldn't read", " 2 of 3 bytes read"])
def test_more_columns_are_no_error_and_text_after_them_is(more, message):
    parser = PERFTEST.parser(writer())
    assert parser.parse(_HEADER + "    CPU_Util[%]\n") is None
    assert parser.parse(_ROW + more + "\n").rate_b_s == 65.27 * MIB
    assert parser.parse(_ROW + more + message + "\n") == Fault(message.strip())


def test_full_rate_writes_until_it_is_stopped():
    both = "ib_write_bw -F -p 20001 -s 65536 -d mlx5_0 --run_infinitely -D 1"
    asked = writer(device="mlx5_0")
    assert PERFTEST.target_command(asked) == both.split()
    assert PERFTEST.origin_command(asked) == [*both.split(), "10.1.0.2"]
    assert PERFTEST.row_source(asked) == "output"


@pytest.mark.parametrize(
    ("rate_b_s", "burst", "limit", "messages"),
    [
        (500e6, None, "4", 1),
        (500e6, Burst(0.01, 0.09), "4", 763),  # 50 MB in 100 ms: 762.9 messages of 64 KiB
        (100e3, Burst(0.01, 0.09), "0.0008", 1),  # one message is the least
    ],
)
def test_a_throttled_writer_is_limited_by_software(rate_b_s, burst, limit, messages):
    asked = writer(rate_b_s=rate_b_s, burst=burst)
    command = " ".join(PERFTEST.origin_command(asked))
    assert command.endswith(
        f"-D 604800 --rate_limit {limit} --rate_units g --rate_limit_type SW"
        f" --burst_size {messages} 10.1.0.2"
    )
    assert "--run_infinitely" not in command
    assert PERFTEST.row_source(asked) == "counter"


def test_the_hardware_holds_the_rate_of_its_table_that_is_next():
    # What the program prints if it does not know a rate.
    text = (CAPTURES / "rate500M_noType.client.txt").read_text()
    known = re.findall(r"^\s+([0-9.]+) Gbps", text, re.MULTILINE)
    exact = {float(gbit_s) * 1e9 / 8: gbit_s for gbit_s in known}
    between = {1e6: "2.5", 1.6e9: "14", 8.9e9: "80", 90e9: "300"}
    for rate_b_s, gbit_s in (exact | between).items():
        command = " ".join(PERFTEST.origin_command(writer(rate_b_s=rate_b_s, limiter="hardware")))
        assert f" --rate_limit {gbit_s} --rate_units g --rate_limit_type HW 10.1.0.2" in command


def test_perftest_may_not_bind_itself_where_it_would(monkeypatch):
    assert "--disable_numa" not in PERFTEST.target_command(writer())
    monkeypatch.setattr(perftest, "_help", lambda _: "  --disable_numa Disable NUMA ...")
    assert "--disable_numa" in PERFTEST.target_command(writer())


@needs("perftest")
@pytest.mark.parametrize("rate_b_s", [None, 20e6])
def test_the_installed_version_takes_our_options(rate_b_s):
    """It looks at its options before it looks for a device, and this one does not exist."""
    asked = writer(device="no_such_device", rate_b_s=rate_b_s)
    answer = subprocess.run(
        PERFTEST.target_command(asked), capture_output=True, text=True, timeout=20
    )
    said = answer.stdout + answer.stderr
    assert answer.returncode == 1
    assert "Unable to find the Infiniband/RoCE device" in said
    assert "unrecognized option" not in said
    assert "support" not in said
