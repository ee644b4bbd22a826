"""The questions that a report answers: one record each, answered and shown by one engine."""
