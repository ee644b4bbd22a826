"""Windows of a trace, drawn at random: what the writers of each pair follow."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence

import numpy as np
import polars as pl

from nimc.base.errors import InputError
from nimc.records.plan import Window
from nimc.records.treatment import Replay
from nimc.traffic.trace import Trace

#: Length of a window in a run, seconds; a longer run begins it again. In a short or broken trace it
#: is one of these parts of that, so that there are several.
LONGEST_S, PARTS = 120, (1, 2, 4, 8)


def draw(trace: Trace, replay: Replay, targets: int, names: Sequence[str]) -> list[Window]:
    """A window for each name, which is all that it depends on, of the named or busiest nodes.

    Raises InputError if the trace lacks nodes, or has no part that is known of all of them.
    """
    nodes = _nodes(trace, replay, targets)
    seconds = trace.seconds.filter(pl.col("node").is_in(nodes))
    first_s = int(seconds["time_s"].sort()[0])
    at = seconds["time_s"].to_numpy() - first_s
    rates = np.full((int(np.max(at)) + 1, targets), np.nan)
    rates[at, [nodes.index(node) for node in seconds["node"]]] = seconds["bytes"].to_numpy()
    known = np.concatenate(([0], np.cumsum(~np.isnan(rates).any(axis=1))))
    lengths_s = [LONGEST_S * replay.speed // part for part in PARTS]
    found_at = {each: np.flatnonzero(known[each:] - known[:-each] == each) for each in lengths_s}
    # Enough begins that windows need not overlap, if there are.
    fit = [each for each in lengths_s if found_at[each].size > each]
    length_s = fit[0] if fit else lengths_s[-1]
    starts = found_at[length_s]
    if not starts.size:
        raise InputError(
            f"traffic: no {length_s} s without a gap in the trace; allowed: at least one such time"
            f" of {', '.join(nodes)}"
        )
    found = []
    for name in names:
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
        start = int(random.Random(seed).choice(starts))
        part = rates[start : start + length_s].reshape(-1, replay.speed, targets).mean(axis=1)
        found.append(Window(first_s + start, nodes, (replay.share * part.T).tolist()))
    return found


def _nodes(trace: Trace, replay: Replay, targets: int) -> list[str]:
    """The trace's node of each target: those asked for by name, else those with the most bytes."""
    of_node = trace.seconds.group_by("node").agg(pl.col("bytes").sum())
    known = of_node.sort(["bytes", "node"], descending=[True, False])["node"].to_list()
    if unknown := [node for node in replay.nodes if node not in known]:
        raise InputError(f"traffic.nodes: {unknown[0]} found; allowed: {', '.join(known)[:200]}")
    nodes = list(dict.fromkeys(replay.nodes)) or known
    if len(nodes) < targets:
        where = "traffic.nodes" if replay.nodes else "traffic"
        of = "named" if replay.nodes else "in the trace"
        raise InputError(f"{where}: {len(nodes)} nodes {of}; allowed: {targets} or more")
    return nodes[:targets]
