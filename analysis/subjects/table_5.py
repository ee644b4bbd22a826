"""Table V of Groves, Grant and Arnold (2016): concurrent writers, published and computed."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.subjects.published import paper
from records.daly import PAPER_MTTI_S, concurrent_writers

#: Lengths of a write, in seconds, with which the FDR column of Table V follows if it counts writes
#: started per second, instead of writers at a time with the 0.5 s that the paper states.
FDR_WRITES_S = (0.770, 0.798)


@dataclass(frozen=True)
class Column:
    """A column of Table V, published and computed; one entry per number of ranks."""

    name: str
    how: str
    write_s: float | None
    published: list[int]
    computed: list[int]

    @property
    def agrees(self) -> bool:
        """Return whether all numbers match."""
        return self.published == self.computed


def table_5() -> tuple[list[int], list[Column]]:
    """Table V of Groves, Grant and Arnold (2016): ranks, and columns published and computed.

    The FDR column appears twice: with the write of 0.5 s stated in the paper, which does not give
    it, and with the effective length that does, as writes per second.
    """
    table = paper()["table_5_concurrent_writers"]
    ranks: list[int] = table["node_count"]
    shortest_s, longest_s = FDR_WRITES_S
    effective_s = round((shortest_s + longest_s) / 2, 3)

    effective = (
        f"writes per second, effective write of {effective_s:g} s"
        f" (any of {shortest_s:.3f} to {longest_s:.3f} s)"
    )
    at_a_time = "concurrent_writers"
    columns: list[tuple[str, str, float | None, str]] = [
        ("daly_qdr_onload", "writers at a time, write of 1 s as stated", 1.0, at_a_time),
        ("daly_fdr_offload", "writers at a time, write of 0.5 s as stated", 0.5, at_a_time),
        ("daly_fdr_offload", effective, effective_s, "writes_per_s"),
        ("constant_0.2_percent", "0.2 % of the ranks", None, "constant_share_writers"),
    ]
    # The constant share does not depend on the write.
    return ranks, [
        Column(
            name=name,
            how=definition,
            write_s=write_s,
            published=table[name],
            computed=[
                round(getattr(concurrent_writers(count, PAPER_MTTI_S, write_s or 1.0), figure))
                for count in ranks
            ],
        )
        for name, definition, write_s, figure in columns
    ]
