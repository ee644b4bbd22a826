"""The commands that agents start for a writer of each injector."""

import resource
from typing import Any

import pytest

from conductor.injectors import INJECTORS, mpi_put, perftest
from tests.conductor.injectors.printed import writer

MIB = 1 << 20
PAGE_B = resource.getpagesize()
_PUT = "/opt/mpi_put --size 65536"
_STEP = "--overlap --mem=0 --cpu-bind=none --nodes=1 --ntasks=1 --het-group={} --nodelist={}"


@pytest.fixture(autouse=True)
def _programs(monkeypatch):
    """Fixes the paths of programs. This perftest does not bind itself to a NUMA node."""
    monkeypatch.setattr(perftest, "help_text", lambda _: "")
    monkeypatch.setattr(mpi_put, "program_path", lambda: "/opt/mpi_put")


def origin_words(injector: str, **fields: Any) -> str:
    """Return the origin's command, with a space before and after each word."""
    return f" {' '.join(INJECTORS[injector].origin_command(writer(**fields)))} "


@pytest.mark.parametrize(
    ("injector", "fields", "words"),
    [
        (
            "perftest",
            {"device": "mlx5_0"},
            "ib_write_bw -F -p 20001 -s 65536 -d mlx5_0 --run_infinitely -D 1 10.1.0.2",
        ),
        # The program refuses to write fewer than five messages.
        ("perftest", {"messages": 46000}, "-s 65536 -n 46000 10.1.0.2"),
        ("perftest", {"messages": 1}, "-s 65536 -n 5 10.1.0.2"),
        # The 32 queue pairs together have 128 messages under way, as one has by default.
        ("perftest", {"footprint_b": 2 * MIB}, "-s 65536 -q 32 -t 4"),
        # UCX queues 32 messages. Queued messages of a paced writer are sent even while it is
        # suspended. So they are limited to 2 MiB, which are 32 messages of 64 KiB. Short writes are
        # not paced.
        *((name, {}, "-O 32") for name in ("ucx", "ucx_read")),
        *((name, {"rate_b_s": 1e9}, "-O 32") for name in ("ucx", "ucx_read")),
        *((name, {"rate_b_s": 1e9, "message_b": MIB}, "-O 2") for name in ("ucx", "ucx_read")),
        ("ucx", {"rate_b_s": 1e9, "message_b": 64 * MIB}, "-O 1"),
        ("ucx", {"rate_b_s": 1e9, "message_b": MIB, "messages": 46000}, "-O 32"),
        ("ucx", {"messages": 46000}, "-n 46000"),  # a short write ends by itself
        ("ucx_read", {}, "-t ucp_get"),
    ],
)
def test_words_in_the_origins_command(injector, fields, words):
    assert f" {words} " in origin_words(injector, **fields)


@pytest.mark.parametrize(
    ("message_b", "buffer_b"), [(64, PAGE_B), (PAGE_B // 2, PAGE_B), (PAGE_B // 2 + 1, None)]
)
def test_small_messages_of_perftest_step_through_a_page(message_b, buffer_b):
    """At least two messages must fit into the page. Larger ones overwrite one buffer."""
    written_b = INJECTORS["perftest"].footprint_b(writer(message_b=message_b))
    assert written_b == (buffer_b or message_b)


@pytest.mark.parametrize(("rate_b_s", "gbit_s"), [(500e6, "4"), (100e3, "0.0008")])
def test_a_throttled_writer_of_perftest_limits_itself(rate_b_s, gbit_s):
    words = origin_words("perftest", rate_b_s=rate_b_s)
    assert words.endswith(
        f" -D 604800 --rate_limit {gbit_s} --rate_units g --rate_limit_type SW"
        " --burst_size 1 10.1.0.2 "
    )
    assert "--run_infinitely" not in words
    rows_of = INJECTORS["perftest"].row_source
    assert (rows_of(writer(rate_b_s=rate_b_s)), rows_of(writer())) == ("counter", "output")


def test_a_perftest_that_can_bind_itself_to_a_numa_node_is_told_not_to(monkeypatch):
    assert " --disable_numa " not in origin_words("perftest")
    monkeypatch.setattr(perftest, "help_text", lambda _: "  --disable_numa Disable NUMA ...")
    assert " --disable_numa " in origin_words("perftest")


@pytest.mark.parametrize("fields", [{}, {"messages": 46000}, {"rate_b_s": 1e9}])
def test_both_ends_of_perftest_have_the_same_options(fields):
    command = INJECTORS["perftest"].target_command(writer(**fields))
    assert INJECTORS["perftest"].origin_command(writer(**fields)) == [*command, "10.1.0.2"]


#: Fields of a writer on one host; tests replace the origin.
HERE = {"origin": "n1", "target": "n1"}
LIMITED = {**HERE, "rate_b_s": 1.25e8, "buffer_node": 1}


@pytest.mark.parametrize(
    ("injector", "launcher", "fields", "command"),
    [
        (
            "mpi_put",
            "/opt/mpiexec",
            LIMITED,
            f"/opt/mpiexec -n 2 {_PUT} --rate 125000000 -m 1",
        ),
        ("mpi_put_both", "mpiexec", HERE, f"mpiexec -n 2 {_PUT} --both"),
        ("mpi_put_receive", "mpiexec", HERE, f"mpiexec -n 2 {_PUT} --receive"),
        (
            "mpi_put_read",
            "mpiexec",
            {**HERE, "origin": "n2"},
            f"mpiexec -n 2 -host n1,n2 {_PUT} --target n1 --get",
        ),
        (  # srun sorts its nodes, so an option tells the program which one is the target
            "mpi_put",
            "srun --mpi=cray_shasta",
            {**HERE, "origin": "n0"},
            "srun --mpi=cray_shasta --overlap --mem=0 --cpu-bind=none --nodes=2 --ntasks=2"
            f" --nodelist=n1,n0 {_PUT} --target n1",
        ),
        (  # a step of a heterogeneous job has a command for each component
            "mpi_put",
            "srun --mpi=pmi2",
            {**HERE, "origin": "n3"},
            f"srun --mpi=pmi2 {_STEP.format(0, 'n1')} {_PUT} --target n1"
            f" : --mpi=pmi2 {_STEP.format(1, 'n3')} {_PUT} --target n1",
        ),
    ],
)
def test_the_origins_agent_starts_both_ends(monkeypatch, injector, launcher, fields, command):
    monkeypatch.setattr(mpi_put, "launcher_of", lambda _: launcher)
    if "pmi2" in launcher:
        monkeypatch.setenv("SLURM_HET_SIZE", "2")
    assert INJECTORS[injector].target_command(writer(**fields)) is None
    assert origin_words(injector, **fields) == f" {command} "
