"""The writers: what they write, when, to which nodes, and the evidence that they did.

`machine/` describes machines, `injectors/` holds the programs that write, `schedule/` the short
writes of a timetable, `evidence/` the proofs. Conductor and agents need only the standard library,
so they start on any compute node.
"""
