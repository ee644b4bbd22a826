import pytest

from reframe_tests.tools.mpi_calls import CallCount, kind_of, rows

#: MPI 4.1, chapters 3, 4 and 6.
KINDS = {
    "point-to-point": "Send Isend Sendrecv_replace Send_init Waitall",
    "collective": "Allreduce Iallreduce Ibarrier Allreduce_init Reduce_scatter_block Alltoallv"
    " Neighbor_alltoall",
    "other": "Reduce_local Init Comm_free Put File_read Info_create",
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_calls(kind):
    assert {kind_of(call) for call in KINDS[kind].split()} == {kind}


def test_the_mean_size_of_a_message_follows_from_two_sums():
    calls = [
        CallCount("Send", calls=3, time_s=0.5),
        CallCount("Send", messages=3, sent_b=3000.0),
        CallCount("Wait", calls=3, time_s=0.25),
        CallCount("Bcast", calls=1, time_s=1.0),
        CallCount("Bcast", messages=1, sent_b=8.0),
        CallCount("Finalize", calls=1, time_s=0.125),
    ]
    found = {row.event: row.value for row in rows(2, 4.0, 1.875, calls)}
    assert found == {
        "application-time": 4.0,
        "MPI-time": 1.875,
        "point-to-point-time": 0.75,
        "point-to-point-calls": 6.0,
        "point-to-point-messages": 3.0,
        "point-to-point-sent": 3000.0,
        "collective-time": 1.0,
        "collective-calls": 1.0,
        "collective-messages": 1.0,
        "collective-sent": 8.0,
        "other-time": 0.125,
        "other-calls": 1.0,
    }


def test_a_tool_that_does_not_count_bytes_says_nothing_of_them():
    found = [row.event for row in rows(0, 1.0, 0.5, [CallCount("Send", calls=1, time_s=0.5)])]
    assert not [event for event in found if event.endswith(("sent", "messages"))]
