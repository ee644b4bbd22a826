"""What is asked: campaigns, their planner and runner, and the `nimc` command."""
