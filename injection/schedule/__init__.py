"""Short writes under a timetable: planned, carried out by the origins, called in again."""
