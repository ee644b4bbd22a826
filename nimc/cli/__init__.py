"""The `nimc` command: one module for each group of subcommands."""
