"""Who holds a machine's lock."""

from __future__ import annotations

import os
from pathlib import Path

from nimc.nights.summary import machine_lock, running


def test_a_night_is_running_only_under_its_own_name(tmp_path: Path) -> None:
    assert not running(tmp_path, "m", "box")
    with machine_lock(tmp_path, "m", "box") as lock:
        assert lock.handle is not None
        assert running(tmp_path, "m", "box")
        assert not running(tmp_path, "m", "bo")
        assert not running(tmp_path, "other", "box")
    assert not running(tmp_path, "m", "box")


def test_what_others_plant_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.lock")
    (tmp_path / "link.lock").symlink_to("fifo.lock")
    assert not running(tmp_path, "fifo", "box")
    assert not running(tmp_path, "link", "box")
