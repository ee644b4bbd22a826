"""Short writes under a timetable: planned, made by the origins, collected and checked."""
