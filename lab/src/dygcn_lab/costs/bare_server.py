"""The least that a web server does: one route, the same bytes for everybody.

`python -m dygcn_lab.costs.bare_server FILE` prints its address as JSON.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from dygcn._extras import extra
from dygcn_lab.testbed.subprocess_ready import tell

with extra("serve"):
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route


def main(path: str) -> None:
    """Serve the bytes of a file until SIGTERM."""
    body = Path(path).read_bytes()

    async def bare(request: Request) -> Response:
        return Response(body, media_type="application/json")

    app = Starlette(routes=[Route("/v1/vectors/{id}", bare)])
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    tell(f"http://127.0.0.1:{listening.getsockname()[1]}")
    config = uvicorn.Config(app, log_level="error", access_log=False, ws="none")
    uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    main(sys.argv[1])
