"""For a service in its own process: it says whose request came; and two ways to believe the wrong one."""

import sys

from dygcn.serving.observing.request_ids import RequestIds
from dygcn.serving.readers import upstream
from dygcn.serving.readers.process import main
from dygcn.serving.service import reader_processes
from dygcn.serving.service.server import PEER, Connections


def show():
    """Write who asked, as the application behind the doors is told."""
    right = RequestIds.__init__

    def showing(self, app, refusal):
        async def shown(scope, receive, send):
            if scope["type"] == "http":
                host, port = scope["client"]
                sys.stdout.write(f"{scope['state']['request_id']} came from {host} {port}\n")
                sys.stdout.flush()
            await app(scope, receive, send)

        right(self, shown, refusal)

    RequestIds.__init__ = showing


def believe_everybody():
    """The header is taken from whoever sends it."""
    show()
    Connections.behind_readers = property(lambda self: True, lambda self, value: None)


def believe_clients():
    """Readers pass the header of a client on, in place of their own."""
    show()
    reader_processes._MODULE = __name__


def _read_and_believe():
    right = upstream._request

    def believing(scope, begun, whole):
        forged = any(name == PEER for name, _ in scope["headers"])
        return right({**scope, "client": None} if forged else scope, begun, whole)

    upstream._request = believing
    upstream._NOT_PASSED_ON = upstream._NOT_PASSED_ON - {PEER}
    main()


if __name__ == "__main__":
    _read_and_believe()
