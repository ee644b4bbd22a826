"""All notes of this project: what a reader needs to know about a figure, and what to do about it.

Samples and results hold the text of a note, so that notes of earlier versions can be read.
`remedy_of` finds the remedy of a text. Sites and checks add notes of their own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache

from records.text import first_names
from records.units import filled


class Note(Enum):
    """A kind of note: its text with the {names} of its values, and the remedy."""

    SHARED_MEMORY = (
        "writers went through shared memory on one host: emulation, not RDMA hardware",
        "the size of the effect is that of the emulation; measure on a machine with RDMA hardware",
    )
    SOFT_ROCE = (
        "writers went over soft-RoCE: emulation by the CPU, not RDMA hardware",
        "the size of the effect is that of the emulation; measure on a machine with RDMA hardware",
    )
    EFA_EMULATED = (
        "EFA's writes were emulated by messages: the target counted fewer RDMA writes than were"
        " claimed",
        "use instances and a libfabric that have RDMA writes (docs/fabrics.md)",
    )
    TWO_SIDED = (
        "writes were emulated by messages, which the target's CPU received: this is not RDMA",
        "let the MPI use a transport with one-sided writes (docs/injectors.md)",
    )
    TARGET_RECEIVES = (
        "messages were received by the target's CPU (two-sided), as the campaign says: not RDMA",
        "leave a core free for it (reserved_cores)",
    )
    TCP = (
        "writers went over TCP: the target's CPU took part, this is not RDMA",
        "the size of the effect is that of the emulation; measure on a machine with RDMA hardware",
    )
    WRITE_LENGTH = (
        "a write of {messages} messages takes {done_s:.3g} s at the rate measured alone; Daly's"
        " interval was planned for {planned_s:.3g} s",
        "add the measured rate to `write` (`... at 3GB/s`), and plan again",
    )
    LINK_SHARE = (
        "writers alone reached {share:.0%} of the link's rate, {link}",
        "this is what `full` stands for",
    )
    BELOW_LINK = (
        "less than full rate: writers alone reached only {share:.0%} of the link's rate, {link}",
        "add `queue_pairs`, origins, or larger messages; or correct `nic.link_rate` in the"
        " machine's file",
    )
    RATE_ALONE_DISTURBED = (
        "wrote at {share:.0%} of the rate alone: the rate alone was disturbed",
        "the writes count, but their share of the full rate is unknown: inject on a quiet host",
    )
    RATE_NOT_REACHED = (
        "the requested rate was not reached: {rate} of each writer requested, {reached_gb_s:.3g}"
        " GB/s reached alone",
        "request a rate that the writers reach alone",
    )
    LINK_UNKNOWN = (
        "the link's rate is not known: `full` is what the writers reached alone",
        "set `nic.link_rate` in the machine's file",
    )
    SAME_HOST = (
        "origin and target share a host: the writers take its processors and memory",
        "take origins on other hosts",
    )
    CONCURRENT_RUN = (
        "another run was being measured on this host when the block began: {run}",
        "both disturb each other: measure one at a time",
    )
    SHARED_CORES = (
        "application and origin share {cores} of the cores",
        "leave cores to the origin in the machine's file, or take origins on other hosts",
    )
    LAYOUT_CORES = (
        "laid out on {cores} cores, but has only {had}",
        "set `layout_cores` to the cores that the application has",
    )
    LAYOUT = (
        "layout {layout}, ranks x threads of a node: the fastest without writers; slower: {others}",
        "set this layout, to measure without the search",
    )
    UNBOUND = (
        "reserved_cores: the application's threads are not bound on {nodes}: there are fewer of"
        " them, but they may run on any core",
        "let the launcher bind the application's threads",
    )
    COUNTERS_SUMMED = (
        "counters of {nodes} are kept as sums or means, medians and extremes",
        "the counters of each node are kept on up to 64 targets and up to 64 origins",
    )
    UNPAIRED = (
        "unpaired: Slurm left {cores} cores a node to the system (--core-spec); runs without"
        " --core-spec come from another job",
        "measure at least two allocations of each level",
    )
    STREAM_IN_CACHE = (
        "STREAM in the last-level cache: {arrays} arrays of {array_mib:.0f} MiB, {llc_mib:.0f} MiB"
        " of cache",
        "read it as a figure of the cache, not of memory",
    )
    STREAM_SMALL = (
        "STREAM arrays of {array_mib:.0f} MiB are smaller than its rule requires (4 x"
        " {llc_mib:.0f} MiB of last-level cache)",
        "it may run in cache, without memory contention: give it more memory (`memory_share`)",
    )
    HPCCG_SMALL = (
        "HPCCG takes {share:.0%} of memory (the memory_share of {machine}), not {wanted:.0%}",
        "compare it with runs of the same size only",
    )
    NOT_VERIFIED = (
        "answers are not verified: {check} accepts an empty output",
        "give the check a sanity function that reads its output",
    )
    FIGURE_MATCH = (
        "the figure is the {which} match of '{pattern}' in the output of each repetition",
        "let the pattern match the one number that says how fast the program is",
    )
    SEVERAL_FIGURES = (
        "several numbers match the figure's pattern",
        "if ranks print one each, take the slowest (`--worst`); else let the pattern match one",
    )
    LENGTHENED = (
        "run lengthened: {variable} times {times}, so that rates and byte counts are precise",
        "compare times with runs of the same length; set the variable in the campaign",
    )
    WITHOUT_WRITERS = (
        "{treatment}: 0 writers at a time on {nodes} nodes; ran without writers",
        "measure on more nodes, or with longer writes",
    )
    UNPROVEN = (
        "unproven: no device counted what arrived at {targets}, and its memory {memory}: only the"
        " writers report the writes",
        "name a `device` that counts them in the machine's file, or take the injector mpi_put,"
        " whose target looks at its memory",
    )
    NOT_JUDGED = (
        "recorded, but not judged by `verify`: {limits}",
        "set these limits to reject disturbed runs",
    )
    NEXT_ALLOCATION = (
        "the interval does not cover the next allocation ({blocks} measured, {needed} needed)",
        "set `pairs.block` to a third of `pairs.floor` in the campaign: with three allocations or"
        " more, a second interval covers the next one",
    )
    HALF_WIDTH = (
        "half-width of the interval is {half_width:.1%} of the slowdown after {pairs} pairs{most};"
        " {precision:.1%} was requested",
        "measure more pairs",
    )
    PAIRS_ALONE = (
        "of these pairs alone, the interval {interval} {says};"
        " a verdict over {questions} needs more pairs",
        "measure more pairs: interim analyses follow 6, 8, 12, 16, 24, 32, 48 pairs and so on",
    )
    CARRY_OVER = (
        "carry-over: baseline runs right after writes took {ratio} times as long as others of their"
        " pair ({pairs} pairs)",
        "set `rest: 2s`, or longer, in the campaign: the time between two runs",
    )
    WIDER_SCATTER = (
        "runs with writes scatter {times:.2g} times as widely as runs without: if they have two"
        " speeds, 'slower' and 'no effect' are wrong more often than stated",
        "look at each run in the picture; compare the mean and the runs that stand out",
    )
    FIRST_ATTEMPTS = (
        "warning: with the first attempt of every run, accepted or rejected, the {name} is"
        " {first:.4g} instead of {used:.4g}, which differs by more than half the interval's width",
        "rejected and repeated runs decide the figure: look at the reasons",
    )
    MANY_REJECTED = (
        "warning: {share:.0%} of the runs of {arm} were rejected, more than {most:.0%}",
        "the accepted runs may not be typical: look at the reasons",
    )
    PROVENANCE = (
        "provenance differs between blocks: {names}",
        "the pairs are valid but mix configurations; with --fresh, the campaign starts again",
    )
    REFERENCE = (
        "slower than its reference: {off:.4g} {unit} without writers; {reference:.4g} {unit} within"
        " {tolerance:.3g%} was expected",
        "look for what changed on the nodes, or correct `references` in the machine's file",
    )

    def __init__(self, text: str, remedy: str) -> None:
        self.text = text
        self.remedy = remedy

    def __call__(self, **values: object) -> str:
        """The text of the note with these values."""
        return filled(self.text, values)

    def matches(self, text: str) -> bool:
        """Return whether a text is this note, with whatever values."""
        return _patterns()[self].fullmatch(text) is not None


def remedy_of(text: str) -> str | None:
    """Return the remedy of a note; None for a note of a site, a check or an earlier version."""
    return next((note.remedy for note in Note if note.matches(text)), None)


#: Beginning of a note on concurrent runs. The names of the runs follow.
_CONCURRENT_RUN = Note.CONCURRENT_RUN.text.partition("{")[0]


def merged_concurrent_runs(notes: Iterable[str], limit: int = sys.maxsize) -> Callable[[str], str]:
    """Return a function that replaces any note on concurrent runs by one common note.

    The common note names the concurrent runs of all `notes`: up to `limit` names, then the number
    of further runs. Other notes stay as they are. Without it, blocks with different concurrent runs
    would have different notes.
    """
    joined_names = (
        note.removeprefix(_CONCURRENT_RUN) for note in notes if note.startswith(_CONCURRENT_RUN)
    )
    runs = dict.fromkeys(run for names in joined_names for run in names.split(", "))
    common_note = Note.CONCURRENT_RUN(run=first_names(runs, limit))
    return lambda note: common_note if note.startswith(_CONCURRENT_RUN) else note


@cache
def _patterns() -> dict[Note, re.Pattern[str]]:
    """Note -> pattern of its texts, whatever their values."""
    patterns = {}
    for note in Note:
        texts_between_values = re.split(r"{.*?}", note.text)
        patterns[note] = re.compile(".*".join(map(re.escape, texts_between_values)))
    return patterns
