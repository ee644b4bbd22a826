"""One file a subcommand of `nimc`; each holds a click command named `command`."""
