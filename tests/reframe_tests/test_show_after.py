"""A test of show_after.sh, which runs a program and then prints the file that the program wrote."""

from records.checkout import ROOT
from tests.reframe_tests.reframe_call import ran

SCRIPT = ROOT / "reframe_tests" / "src" / "show_after" / "show_after.sh"


def run(folder, rank, *program):
    environment = {"PATH": "/usr/bin:/bin", **({"PMI_RANK": rank} if rank else {})}
    return ran(SCRIPT, "out*.txt", *program, cwd=folder, env=environment)


def test_only_rank_0_prints_only_the_files_of_this_run(tmp_path):
    for rank in (None, "0"):
        (tmp_path / "out_old.txt").write_text("old\n")
        done = run(tmp_path, rank, "sh", "-c", "echo said; echo new > out_new.txt")
        assert (done.stdout, done.returncode) == ("said\nnew\n", 0)
    done = run(tmp_path, "3", "echo", "said")
    assert (done.stdout, done.returncode) == ("said\n", 0)
    assert (tmp_path / "out_new.txt").exists()
    # The wrapper keeps a failing status of the program. It also fails if no file was written.
    assert run(tmp_path, "0", "sh", "-c", "exit 7").returncode == 7
    assert run(tmp_path, "0", "true").returncode != 0
