"""What is asked: the campaign file, its schema and its faults."""
