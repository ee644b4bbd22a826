"""A test that runs the check STREAM of ReFrame's own tutorial with NimcMixin."""

import gzip
import sys
from pathlib import Path

import pytest

from tests.reframe_tests.reframe_call import reframe, samples_of, succeeded
from tests.undisturbed import VARIABLES

TRIAL = """
import sys
sys.path.append("{tutorial}")  # not before: ReFrame removes the place of its own entry
import reframe as rfm
from stream_build_run import stream_build_test
from reframe_tests.mixin import NimcMixin

@rfm.simple_test
class contended(stream_build_test, NimcMixin):
    valid_prog_environs = ["wheels"]
"""


@pytest.mark.slow
def test_the_stream_of_reframes_tutorial_has_a_slowdown(tmp_path):
    tutorial = Path(sys.prefix) / "share/doc/reframe-hpc/examples/tutorial/stream"
    (tmp_path / "mine.py").write_text(TRIAL.format(tutorial=tutorial))
    # The tutorial's check reads the OpenMP flag of the compiler from its environment.
    (tmp_path / "settings.py").write_text(
        "from configs import localhost\n"
        "site_configuration = localhost.site_configuration\n"
        "site_configuration['environments'][0]['extras'] = {'omp_flag': '-fopenmp'}\n"
    )
    settings = {"pairs": 1, "warmups": 0, "arms": "off,on", **VARIABLES}
    # On a busy host, a writer may print nothing for seconds, and the run is repeated.
    settings["retries"] = 10
    settings["nimc_dir"] = tmp_path / "run"
    files = (tmp_path / "settings.py", tmp_path / "mine.py")
    done = reframe(tmp_path, *files, "-r", name="contended", settings=settings)
    succeeded(done)
    assert "contended: writers went through shared memory on one host: emulation" in done.stdout
    kept = [
        sample
        for sample in samples_of(tmp_path / "run", "contended")
        if sample["outcome"] == "accepted"
    ]
    assert {sample["arm"] for sample in kept} == {"off", "on"}
    for sample in kept:
        (out,) = (tmp_path / "run/logs/contended/0").glob(
            f"{sample['pair']}-{sample['arm']}-{sample['attempt']}.out.gz"
        )
        # The figure must be that of the column `Best Rate MB/s` in the output of this run.
        text = gzip.decompress(out.read_bytes()).decode()
        (line,) = [line for line in text.splitlines() if line.startswith("Copy:")]
        assert sample["fom"] == pytest.approx(float(line.split()[1]) * 1e6)
