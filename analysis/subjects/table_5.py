"""Table V of Groves, Grant and Arnold (2016): concurrent writers, published and computed."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.subjects.paper import paper
from records.daly import PAPER_MTTI_S, concurrent_writers

#: The FDR column of Table V equals the numbers of writes that start per second, if a write takes
#: between these two times. According to the paper, the column has numbers of concurrent writers,
#: for writes of 0.5 s.
FDR_WRITES_S = (0.770, 0.798)


@dataclass(frozen=True)
class Column:
    """A column of Table V, published and computed; one entry per number of ranks."""

    name: str
    #: How the numbers are computed, in words.
    how: str
    #: Length of a write in seconds; None if the numbers do not depend on it.
    write_s: float | None
    published: list[int]
    computed: list[int]

    @property
    def agrees(self) -> bool:
        """Return whether all numbers match."""
        return self.published == self.computed


def table_5() -> tuple[list[int], list[Column]]:
    """Table V of Groves, Grant and Arnold (2016): ranks, and columns published and computed.

    The FDR column appears twice, since it does not follow from the write of 0.5 s that the paper
    states. The second time, it is computed as writes per second, from an effective length of a
    write.
    """
    table = paper()["table_5_concurrent_writers"]
    ranks: list[int] = table["node_count"]
    shortest_s, longest_s = FDR_WRITES_S
    effective_s = round((shortest_s + longest_s) / 2, 3)

    effective_definition = (
        f"writes per second, effective write of {effective_s:g} s"
        f" (any of {shortest_s:.3f} to {longest_s:.3f} s)"
    )
    # Name, definition, length of a write, and the field of `DalyWriters` with its numbers.
    columns: list[tuple[str, str, float | None, str]] = [
        (
            "daly_qdr_onload",
            "writers at a time, write of 1 s as stated",
            1.0,
            "concurrent_writers",
        ),
        (
            "daly_fdr_offload",
            "writers at a time, write of 0.5 s as stated",
            0.5,
            "concurrent_writers",
        ),
        ("daly_fdr_offload", effective_definition, effective_s, "writes_per_s"),
        ("constant_0.2_percent", "0.2 % of the ranks", None, "constant_share_writers"),
    ]
    compared_columns = []
    for name, definition, write_s, field in columns:
        # The constant share does not depend on the length of a write.
        writers = [concurrent_writers(count, PAPER_MTTI_S, write_s or 1.0) for count in ranks]
        compared_columns.append(
            Column(
                name=name,
                how=definition,
                write_s=write_s,
                published=table[name],
                computed=[round(getattr(row, field)) for row in writers],
            )
        )
    return ranks, compared_columns
