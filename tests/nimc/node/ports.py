"""A port of the loopback interface that nothing uses: a fixed one may be another user's."""

import socket


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
