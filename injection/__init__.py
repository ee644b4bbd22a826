"""Who writes to whom and when, and the evidence that it happened.

`machine/` says what a machine is, `injectors/` holds the programs that write, `schedule/` the short
writes under a timetable, `evidence/` the proofs. Conductor and agents need the standard library
only: they start on any compute node.
"""
