"""Injectors are found by name and direction, and say why they cannot run."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from conductor import injectors
from conductor.agent.end_program import start_writer_end
from records.errors import InputError
from tests import made_writers
from tests.reframe_tests.reframe_call import script


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("ibwrite", "write"), "'ibwrite': allowed are perftest, ucx, mpi_put, spin,"),
        (("ucx", "both"), r"'ucx': .* both; allowed: mpi_put$"),
        (("perftest", "receive"), r"'perftest': .* receive; allowed: mpi_put$"),
        (("ucx", "up"), "direction 'up': allowed are write, read, both"),
    ],
)
def test_an_unknown_injector_or_direction_is_refused_with_the_known_ones(words, fault):
    with pytest.raises(ValueError, match=fault):
        injectors.injector_for(*words)


@pytest.mark.parametrize(
    ("words", "counterpart"),
    [
        ("perftest read", "perftest_read"),
        ("ucx read", "ucx_read"),
        ("ucx write", "ucx"),
        ("ucx_read read", "ucx_read"),
        ("mpi_put both", "mpi_put_both"),
        ("spin read", "spin"),
        ("mpi_put receive", "mpi_put_receive"),
    ],
)
def test_a_direction_picks_the_counterpart_of_the_same_program(words, counterpart):
    assert injectors.injector_for(*words.split()).name == counterpart


@pytest.mark.parametrize(
    ("names", "suspendable", "paced_by", "writes_short", "row_s", "reports_arrivals"),
    [
        ("perftest perftest_read", "after a row", "program", True, 1.0, False),
        ("ucx ucx_read", "anytime", "agent", True, 1.0, False),
        ("mpi_put mpi_put_both mpi_put_receive", "on one host", "program", False, 0.25, True),
        ("mpi_put_read", "on one host", "program", False, 0.25, False),
    ],
)
def test_what_the_page_says_of_each_injector(
    names, suspendable, paced_by, writes_short, row_s, reports_arrivals
):
    """docs/injectors.md says which writers are held, what paces them, and what they report."""
    for name in names.split():
        injector = injectors.INJECTORS[name]
        assert (injector.suspendable, injector.paced_by) == (suspendable, paced_by)
        assert (injector.writes_short, injector.row_s) == (writes_short, row_s)
        assert injector.reports_arrivals == reports_arrivals


def test_a_rate_is_asked_of_injectors_that_can_hold_it():
    assert injectors.writing_rate_b_s(injectors.injector_for("perftest"), "500MB/s") == 500e6
    for name in injectors.INJECTORS:
        assert injectors.writing_rate_b_s(injectors.injector_for(name), "full") is None
    with pytest.raises(InputError, match=r"^rate: '1GB/s' found; spin writes nothing"):
        injectors.writing_rate_b_s(injectors.injector_for("spin"), "1GB/s")
    with pytest.raises(InputError, match=r"rate: 'fast'"):
        injectors.writing_rate_b_s(injectors.injector_for("ucx"), "fast")


@pytest.mark.parametrize(
    ("name", "program"),
    [("perftest_read", "ib_read_bw"), ("mpi_put", "mpi_put")],
)
def test_a_missing_program_is_named(monkeypatch, name, program):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("conductor.injectors.mpi_put.SOURCE_FOLDER", Path("/nowhere"))
    assert injectors.INJECTORS[name].why_missing().startswith(f"{program} is missing: ")


def test_a_program_without_the_libraries_of_its_modules_does_not_start(monkeypatch, tmp_path):
    """The stand-in prints the error of ld.so, and ends with its exit status, 127."""
    words = "error while loading shared libraries: libmpi.so.40: cannot open shared object file"
    script(tmp_path / "mpi_put", f'echo "mpi_put: {words}" >&2; exit 127')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    fault, _, remedy = injectors.INJECTORS["mpi_put"].why_missing().partition(": ")
    assert fault == f"mpi_put does not start (mpi_put, {words.replace(': ', ', ')})"
    assert remedy.startswith("load the modules of its MPI, or 'make -B -C ")


def test_a_launcher_with_an_open_quote_is_missing(monkeypatch, tmp_path):
    """`make LAUNCHER=...` may have set such a launcher."""
    launcher = "none -x 'A"
    script(tmp_path / "mpi_put", f'echo "{launcher}"')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    put = injectors.INJECTORS["mpi_put"]
    assert put.why_missing().startswith(f"{launcher} of mpi_put is missing: ")
    assert put.doubt().startswith(f"{launcher} of mpi_put ")


def test_the_wheels_ucx_has_no_verbs_and_the_error_says_what_to_install(monkeypatch, tmp_path):
    """The host is like a virtual machine with soft-RoCE. The writer's end has the same error."""
    (tmp_path / "wheel").touch()
    monkeypatch.setattr("conductor.injectors.ucx.WHEEL_PROGRAM", tmp_path / "wheel")
    monkeypatch.setattr("records.machine.devices.is_rdma", lambda name: name == "rxe0")
    monkeypatch.setattr("records.machine.devices.transport", lambda _: "soft-RoCE")
    monkeypatch.setenv("PATH", str(tmp_path))
    ucx = injectors.INJECTORS["ucx"]
    assert (ucx.why_missing(), ucx.why_missing("eth0")) == (None, None)
    advice = ucx.why_missing("rxe0")
    assert advice.startswith("ucx_perftest with verbs is missing for rxe0: 'apt install ucx-utils'")
    writer = made_writers.writer(device="rxe0")
    assert asyncio.run(start_writer_end(ucx, writer, "target", subprocess.DEVNULL)) == advice
    script(tmp_path / "ucx_perftest", "true")
    assert ucx.why_missing("rxe0") is None
