"""The line that scontrol prints for a reservation."""

LINE = (
    "ReservationName=nimc StartTime=2026-11-21T04:25:28 EndTime=2026-11-21T05:25:28 "
    "Duration=01:00:00 Nodes=node4 NodeCnt=1 CoreCnt=2 Features=(null) PartitionName=origin Flags= "
    "TRES=cpu=2 Users=root Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE "
    "BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)"
)
