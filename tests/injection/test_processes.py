import os

from injection import processes


def exit_status_of_a_child_of(parent):
    """Exit status of a forked process that was given another parent and would exit with 7."""
    pid = os.fork()
    if not pid:
        processes._prepare(parent, [], None)()
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_child_whose_parent_died_before_it_was_ready_ends():
    assert exit_status_of_a_child_of(os.getpid()) == 7
    assert exit_status_of_a_child_of(os.getppid()) == 1
