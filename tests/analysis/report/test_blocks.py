import json

from analysis.report.data import UnfinishedBlock, unfinished_blocks


def test_blocks_that_ended_early_are_listed_with_who_failed(tmp_path):
    for block, outcome, reason in (("0", "node_failed", "Slurm: NODE_FAIL"), ("1", "done", None)):
        folder = tmp_path / "logs" / "stream" / block
        folder.mkdir(parents=True)
        (folder / "job.json").write_text(json.dumps({"outcome": outcome, "reason": reason}))
    for block, damaged in (("2", "{"), ("3", "{}"), ("4", "[1]"), ("5", "null")):
        folder = tmp_path / "logs" / "stream" / block
        folder.mkdir()
        (folder / "job.json").write_text(damaged)
    assert unfinished_blocks(tmp_path) == [
        UnfinishedBlock("stream", "0", "node_failed", "Slurm: NODE_FAIL")
    ]
