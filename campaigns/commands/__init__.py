"""The subcommands of `nimc`, a file each; each file defines a click command named `command`."""
