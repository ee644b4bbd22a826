"""The command line of `nimc`. Each module has one or several subcommands."""
