"""The program mpi_put under the MPIs of this host, and blocks of runs with its writes.

The origin of mpi_put prints rows, which are rates. The target finds the bytes in its own memory.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from conductor.injectors import INJECTORS, mpi_put
from conductor.injectors.base import Arrived, Fault, Row
from conductor.shared_memory import FOLDER_VARIABLE, folder
from records.kernel_text import read
from records.processes import descendants
from records.programs import find_program
from records.treatment import Start, Treatment, Writes
from tests.conductor.conftest import LENIENT, PACE, lasting, state_of, stop_for
from tests.conductor.injectors.printed import meanings, writer
from tests.waiting import wait_until

SOURCE = Path(mpi_put.__file__).parents[1] / "mpi_put"
MIB = 1 << 20
#: Folder with the shared memory of an MPI's ranks.
SHARED_MEMORY = Path("/dev/shm")
#: MPI -> its compiler on this host, or None. Its header `mpi.h` may be missing.
COMPILERS = {
    "mpich": find_program("mpicc.mpich") or find_program("mpicc"),
    "openmpi": find_program("mpicc.openmpi"),
}
#: MPI -> variables that choose tcp, a transport without one-sided writes.
OVER_TCP = {
    "mpich": {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self"},
    "openmpi": {"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_pml": "ob1", "OMPI_MCA_osc": "pt2pt"},
}
#: MPI -> the variable that names the network interfaces for tcp.
INTERFACE_VARIABLES = {"mpich": "UCX_NET_DEVICES", "openmpi": "OMPI_MCA_btl_tcp_if_include"}
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@pytest.fixture(scope="module")
def program_of(tmp_path_factory):
    """Returns the path of the program for an MPI. It is compiled at the first request."""
    paths = {}

    def make(mpi, target="mpi_put"):
        compiler = COMPILERS[mpi]
        if compiler is None or not has_headers(compiler) or shutil.which("make") is None:
            pytest.skip(f"needs make, and mpicc and mpi.h of {mpi}")
        if (mpi, target) not in paths:
            out = tmp_path_factory.mktemp(f"{mpi}-{target}")
            words = [f"{out}/{target}", f"OUT={out}", f"MPICC={compiler}"]
            subprocess.run(["make", "-s", "-C", SOURCE, *words], check=True, timeout=120)
            paths[mpi, target] = out / target
        return paths[mpi, target]

    return make


def has_headers(compiler):
    words = [compiler, "-E", "-include", "mpi.h", "-x", "c", os.devnull]
    return subprocess.run(words, capture_output=True, timeout=60).returncode == 0


def test_a_program_of_the_wheels_loads_their_mpi_beside_a_module_of_another(tmp_path, monkeypatch):
    """The library of Intel MPI has the name of MPICH's, and RUNPATH comes after LD_LIBRARY_PATH."""
    compiler = Path(sys.prefix, "bin", "mpicc")
    if not compiler.exists():
        pytest.skip(f"needs {compiler}")
    words = [f"{tmp_path}/mpi_put", f"OUT={tmp_path}", f"MPICC={compiler}"]
    subprocess.run(["make", "-s", "-C", SOURCE, *words], check=True, timeout=120)
    module = tmp_path / "impi"
    module.mkdir()
    library = ["-shared", "-x", "c", os.devnull, "-o", module / "libmpi.so.12"]
    subprocess.run(["cc", *library], check=True, timeout=60)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/apps/lib:{module}")
    own = str(Path(sys.prefix, "lib", "libmpi.so.12"))
    for target in ("n9", "n1"):
        variables = mpi_put.MpiPut().environment(writer(origin="n9", target=target))
        for added, loaded in (({}, f"{module}/libmpi.so.12"), (variables, own)):
            shown = subprocess.run(
                ["ldd", tmp_path / "mpi_put"],
                env={**os.environ, **added},
                capture_output=True,
                text=True,
                check=True,
            )
            assert f"libmpi.so.12 => {loaded} " in shown.stdout
    assert variables["LD_LIBRARY_PATH"].endswith(f":/apps/lib:{module}")


@pytest.fixture(params=list(COMPILERS))
def mpi(request):
    return request.param


def run(program, *words, **environment):
    """Run both ranks on this host, with the program's own launcher."""
    try:
        return subprocess.run(
            [*start(program), *map(str, words)],
            env={**os.environ, **mpi_put.LAUNCHER_VARIABLES, **AS_ROOT, **environment},
            capture_output=True,
            text=True,
            timeout=60,
        )
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"no end: {(error.stdout or b'')[-300:]}") from None


def variables(pid):
    """Return the environment variables of a process."""
    words = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(word.split("=", 1) for word in words if "=" in word)


def default_interface():
    """Return the interface of this host's default route.

    Other interfaces may belong to a minicluster of another test, which may end meanwhile.
    """
    rows = [line.split() for line in Path("/proc/net/route").read_text().splitlines()]
    for interface, destination, *_ in rows:
        if destination == "00000000":
            return interface
    pytest.skip("needs an interface with a default route")


def last_arrival(meant):
    return [meaning for meaning in meant if isinstance(meaning, Arrived)][-1]


def rate_b_s(meant):
    rows = [meaning for meaning in meant if isinstance(meaning, Row)]
    return sum(row.rate_b_s * row.over_s for row in rows) / sum(row.over_s for row in rows)


@pytest.mark.slow
def test_the_origin_claims_as_many_bytes_as_the_target_finds_in_its_memory(program_of, mpi):
    """At the end no message is under way, so both numbers are equal to the byte."""
    limited = ["-s", 65536, "-r", "50e6"]
    for words in (["-s", 4 * MIB, "--both"], ["-s", 1001], limited)[: 3 if mpi == "mpich" else 1]:
        done = run(program_of(mpi), "-d", 0.6, *words)
        assert done.returncode == 0, done.stderr
        sent_b = int(re.search(r"^sent (\d+) B$", done.stdout, re.MULTILINE)[1])
        meant = meanings("mpi_put", done.stdout)
        assert last_arrival(meant).bytes_b == sent_b > 0
        assert last_arrival(meant).transport == "shared memory"
        rows = [meaning for meaning in meant if isinstance(meaning, Row)]
        assert sum(row.rate_b_s * row.over_s for row in rows) <= 1.001 * sent_b
        if "-r" not in words and 1001 not in words:
            # One core copies gigabytes a second, but less on a busy host.
            assert rate_b_s(meant) > 1e6


@pytest.mark.slow
def test_the_target_counts_the_messages_that_it_receives(program_of, mpi):
    """The target has received whole messages, with as many bytes as the origin has sent."""
    for words in (["-s", 8 * MIB], ["-s", 1000, "--footprint", 70000])[
        : 2 if mpi == "mpich" else 1
    ]:
        done = run(program_of(mpi), "-d", 0.6, "--receive", *words)
        assert done.returncode == 0, done.stderr
        sent_b = int(re.search(r"^sent (\d+) B$", done.stdout, re.MULTILINE)[1])
        meant = meanings("mpi_put_receive", done.stdout)
        assert last_arrival(meant) == Arrived(sent_b, "receives")
        assert sent_b > 0
        assert sent_b % words[1] == 0
        # The target waits for messages, which uses processor time. One-sided writes would not.
        used = re.findall(r"target receives, (\S+) s", done.stdout)
        assert float(used[-1]) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["--get"],
        ["--both", "-r", "200e6"],
        ["--footprint", "70000", "-s", "65536"],
        ["--receive", "-s", "1000", "-r", "5e6"],
    ],
)
def test_the_program_runs_under_sanitizers(program_of, words):
    done = run(
        program_of("mpich", "mpi_put-asan"), "-d", 1.2, *words, ASAN_OPTIONS="detect_leaks=0"
    )
    assert done.returncode == 0, done.stderr
    assert rate_b_s(meanings("mpi_put", done.stdout)) > 0


RECEIVE_REFUSAL = "--receive: messages of 8 to 2147483647 bytes in one direction are needed"


def start(program):
    launcher = subprocess.run([program, "--launcher"], capture_output=True, text=True, check=True)
    return [*launcher.stdout.split(), "-n", "2", program]


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["--size", "64KiB"], "--size 64KiB: a number from 1 to 1e+12 is needed"),
        (["--size", "1.5"], "--size 1.5: a whole number is needed"),
        (["--rate", "0"], "--rate 0: a number from 1 to 1e+15 is needed"),
        (["--footprint", "9"], "--footprint 9: at least one message, 65536, is needed"),
        (["--receive", "-s", "7"], RECEIVE_REFUSAL),
        (["--receive", "--get"], RECEIVE_REFUSAL),
        (["--node", "1024"], "--node 1024: a number from 0 to 1023 is needed"),
        (["write"], "write: not an option, see --help"),
    ],
)
def test_a_bad_option_is_refused_in_one_line(program_of, words, refusal):
    done = subprocess.run([program_of("mpich"), *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, f"mpi_put: {refusal}\n")


def test_a_rank_without_the_launcher_of_its_mpi_finds_no_other_and_says_so(program_of):
    # This uses Open MPI. After a single process, MPICH 5.0 leaves a megabyte in /dev/shm.
    done = subprocess.run([program_of("openmpi")], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert meanings("mpi_put", done.stderr)[0] == Fault(
        "1 ranks found, 2 are needed: is the launcher that of its MPI?"
    )


def test_full_shared_memory_is_reported_in_one_line(program_of):
    script = 'mount -t tmpfs -o size=4m none /dev/shm || exit 77; exec "$@"'
    words = [*start(program_of("mpich")), "-d", "0.5", "-s", str(8 * MIB)]
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", *words],
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no namespaces: {done.stderr.strip()}")
    assert done.returncode == 3
    (fault,) = {
        meaning for meaning in meanings("mpi_put", done.stderr) if isinstance(meaning, Fault)
    }
    assert "/dev/shm) is full" in fault.text


def test_shared_memory_of_mpich_is_in_the_agents_folder_from_the_beginning(program_of, tmp_path):
    before = set(SHARED_MEMORY.glob("mpich_*"))
    process = subprocess.Popen(
        start(program_of("mpich")),
        env={**os.environ, FOLDER_VARIABLE: str(tmp_path)},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until(lambda: list(tmp_path.glob("mpich_shm_*")), 30, every_s=0.001)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert set(SHARED_MEMORY.glob("mpich_*")) - before == set()


# Blocks.


@pytest.fixture
def on_path(program_of, mpi, monkeypatch):
    """Puts the program on PATH, and sets the variables with which root may run Open MPI."""
    monkeypatch.setenv("PATH", f"{program_of(mpi).parent}:{os.environ['PATH']}")
    for name, value in AS_ROOT.items():
        monkeypatch.setenv(name, value)


def run_under(block, seconds=1, limits=LENIENT, **writes):
    """Start a block with a run without writes and a run with writes of mpi_put."""
    writes = {"injector": "mpi_put", "message_b": MIB, **writes}
    return block(arms=["off", "on"], command=lasting(seconds), limits=limits, writes=writes)


def mapped(pids):
    """Return the files of shared memory that processes map; some may be removed already."""
    texts = [read(f"/proc/{pid}/maps") for pid in pids]
    return {Path(name) for text in texts for name in re.findall(rf"{SHARED_MEMORY}/\S+", text)}


@pytest.mark.slow
@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize("mpi", ["mpich"])
def test_its_writes_are_proven_by_the_targets_memory(block):
    running = run_under(block, limits=PACE, buffer_node=0)
    running.started("0-on-0")
    names = mapped(running.processes("mpi_put"))
    assert [path for path in names if path.name.startswith("mpich_shm_")]
    done = running.done()
    sample = done.sample()
    assert (done.sample("off")["outcome"], sample["outcome"]) == ("accepted", "accepted")
    (writer,) = sample["writers"]
    assert (writer["injector"], writer["transport"]) == ("mpi_put", "shared memory")
    assert writer["proof"] == "memory"
    assert writer["rate_b_s"] > 1e8
    assert writer["observed_share"] > 0.9  # the last row may be missing: rows are printed late
    assert (list(writer["origin_buffers_b"]), writer["target_on_node_share"]) == (["0"], 1.0)
    assert not any("were started for this run" in note for note in sample["notes"])
    assert [path for path in names if path.exists()] == []


@pytest.mark.slow
@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize("mpi", ["mpich"])
def test_limits_and_proof_of_reads_and_writes_are_stored(block):
    """Reads and writes are limited to a quarter of their rate without an application."""
    kinds = {
        "off": None,
        "read": Writes(injector="mpi_put_read", message_b=MIB, direction="read", rate_share=0.25),
        "on": Writes(injector="mpi_put", message_b=MIB, rate_share=0.25),
    }
    arms = [
        Treatment(
            name=arm,
            start=Start(command=lasting(1)),
            writes=writes,
            role="effect" if writes else "baseline",
            baseline="off",
        )
        for arm, writes in kinds.items()
    ]
    done = block(treatments=[replace(arms[0], baseline=None), *arms[1:]]).done()
    (reader,), (writer,) = (done.sample(arm)["writers"] for arm in ("read", "on"))
    assert (reader["direction"], reader["transport"]) == ("read", "shared memory")
    assert (reader["proof"], writer["proof"]) == ("unproven", "memory")
    for record in (reader, writer):
        assert record["limited_by"] == "software"
        # On a busy host, it may be slower than requested. It is not faster by more than 15 %.
        assert 0.1 * record["asked_b_s"] < record["rate_b_s"] < 1.15 * record["asked_b_s"]


@pytest.mark.slow
@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize("mpi", ["openmpi"])
def test_its_ranks_stand_still_between_runs_and_end_with_the_block(block):
    """The launcher is not suspended: if it were, it could not end its ranks."""
    writes = {"injector": "mpi_put", "message_b": MIB}
    running = block(arms=["off", "on"], command=["sleep", "60"], writes=writes)
    running.started("0-off-0")
    ranks = running.processes("--size")  # ranks have this option, and so does the launcher
    launcher = [pid for pid in ranks if descendants(pid)]
    ranks = [pid for pid in ranks if not descendants(pid)]
    assert {state_of(pid) for pid in ranks} == {"T"}
    assert "T" not in {state_of(pid) for pid in launcher}
    assert len(ranks) == 2
    shared = mapped(ranks)
    assert shared
    (agent_folder,) = {SHARED_MEMORY / path.relative_to(SHARED_MEMORY).parts[0] for path in shared}
    assert agent_folder.name.startswith("nimc-writers-")
    assert list(agent_folder.glob("ompi.*"))  # the launcher's own files
    running.process.kill()
    wait_until(lambda: not running.processes())

    def are_removed() -> bool:
        """Remove the files as the next agent does, and return whether they are gone.

        It removes them a second after the last change of the folder, or later.
        """
        with folder():
            return not any(path.exists() for path in shared)

    wait_until(are_removed, most_s=60)


@pytest.mark.slow
@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize("mpi", ["mpich"])
def test_a_target_that_was_suspended_for_long_does_not_begin_to_receive(program_of, mpi):
    """The target polls if no mark in its memory changes for ten seconds.

    The time for which it was suspended does not count.
    """
    with subprocess.Popen(
        [*start(program_of(mpi)), "-d", "13.5"],
        env={**os.environ, **mpi_put.LAUNCHER_VARIABLES, **AS_ROOT},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        while not process.stdout.readline().startswith("row "):
            pass
        ranks = [pid for pid in descendants(process.pid) if not descendants(pid)]
        # Rank 0 is the target.
        target, origin = sorted(ranks, key=lambda pid: variables(pid)["PMI_RANK"])
        # The target reads its marks every 50 ms. While the origin is stopped, it does so for 0.3 s
        # before its own suspension and for 0.3 s after it.
        os.kill(origin, signal.SIGSTOP)
        time.sleep(0.3)
        stop_for([target], 11)
        time.sleep(0.3)
        os.kill(origin, signal.SIGCONT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert last_arrival(meanings("mpi_put", output)).transport == "shared memory"


@pytest.mark.slow
def test_a_target_that_must_receive_is_reported_as_two_sided(program_of, mpi):
    over_tcp = {**OVER_TCP[mpi], INTERFACE_VARIABLES[mpi]: default_interface()}
    done = run(program_of(mpi), "-d", 0.5, **over_tcp)
    assert done.returncode == 0, done.stderr
    assert last_arrival(meanings("mpi_put", done.stdout)).transport == "two-sided"


@pytest.mark.parametrize(
    ("launcher", "job", "on_one_host", "can_be_held"),
    [
        ("mpiexec", "", True, True),
        ("mpiexec", "", False, False),
        ("/usr/bin/srun --mpi=pmix", "", True, False),
        ("mpiexec", "7", True, False),  # MPICH's mpiexec starts its ranks with an srun
    ],
)
def test_ranks_that_slurm_starts_are_not_held(monkeypatch, launcher, job, on_one_host, can_be_held):
    """They are children of slurmstepd, so the agent cannot suspend them."""
    monkeypatch.setattr(mpi_put, "launcher_of", lambda _: launcher)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    if job:
        monkeypatch.setenv("SLURM_JOB_ID", job)
    assert INJECTORS["mpi_put"].can_be_held(on_one_host=on_one_host) is can_be_held
