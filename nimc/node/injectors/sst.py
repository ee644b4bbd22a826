"""ADIOS2's SST: an in-situ coupling, whose producer is the origin and its consumer the target.

A step is one message. The producer stages a copy, which the consumer asks for and receives: data
arrives in the consumer's memory by its own processor's work. The wheel has no transport but tcp.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from nimc.node.injectors import pair
from nimc.node.shared_memory import FOLDER_VARIABLE

_STAMP_B = 8
#: Steps that the producer stages before it waits for the consumer.
_STAGED = 2


class Sst(pair.Paired):
    """Steps of a stream, one variable each."""

    name = "sst"
    module = "adios2"
    extra = "adios2"


def _stream(ends: pair.Ends) -> tuple[Any, Any]:
    """A stream's settings, and what must be kept as long as the stream."""
    import adios2

    adios = adios2.Adios()
    stream = adios.declare_io("stream")
    stream.set_engine("SST")
    stream.set_parameters({"DataTransport": "WAN", "OpenTimeoutSecs": "30"})
    if ends.device:
        stream.set_parameter("NetworkInterface", ends.device)
    return stream, adios


def _stamps(data: Any) -> list[Any]:
    """The first and the last bytes of a step, which say how many came before it."""
    return [data[:_STAMP_B].view("uint64"), data[-_STAMP_B:].view("uint64")]


def _folder() -> tempfile.TemporaryDirectory[str]:
    """For the file by which the ends find each other; the agent's, which it removes."""
    return tempfile.TemporaryDirectory(dir=os.environ.get(FOLDER_VARIABLE))


def _consume(ends: pair.Ends, link: pair.Link) -> None:
    """Take steps; one counts if it begins and ends with the bytes that were put before it."""
    import numpy
    from adios2.bindings import Mode, StepStatus

    stream, _adios = _stream(ends)
    contact = link.receive()
    with _folder() as folder:
        Path(folder, "stream.sst").write_text(contact.replace("\0", "\n"))
        engine = stream.open(f"{folder}/stream", Mode.Read)
    data = numpy.zeros(ends.message_b, numpy.uint8)
    stamps = _stamps(data)
    arrived_b, last_b = 0, -1
    link.send("open")
    while engine.begin_step() == StepStatus.OK:
        engine.get(stream.inquire_variable("data"), data)
        engine.end_step()
        first_b, end_b = (int(stamp[0]) for stamp in stamps)
        if first_b == end_b > last_b:
            arrived_b, last_b = arrived_b + ends.message_b, end_b
        link.report(arrived_b)


def _produce(ends: pair.Ends, link: pair.Link) -> None:
    import numpy
    from adios2.bindings import Mode

    stream, _adios = _stream(ends)
    stream.set_parameters({"QueueLimit": str(_STAGED), "QueueFullPolicy": "Block"})
    stream.set_parameter("RendezvousReaderCount", "0")
    # As a simulation's: zeros are packed, which takes the consumer ten times as long.
    data = numpy.random.default_rng(0).integers(1, 256, ends.message_b, numpy.uint8)
    stamps = _stamps(data)
    variable = stream.define_variable("data", data, [data.size], [0], [data.size])
    with _folder() as folder:
        engine = stream.open(f"{folder}/stream", Mode.Write)
        link.send(Path(folder, "stream.sst").read_text().replace("\n", "\0"))

        def put(before_b: int) -> None:
            for stamp in stamps:
                stamp[0] = before_b
            engine.begin_step()
            engine.put(variable, data)
            engine.end_step()

        while not link.has_line():  # the consumer opens while steps are made, which nobody gets
            put(0)
    link.receive()
    pair.write(ends, link, ends.message_b, put)


def main() -> None:
    """Entry point of both ends."""
    pair.run(_consume, _produce)
