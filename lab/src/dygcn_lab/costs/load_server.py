"""The service with one route more: the same bytes as a vector, with nothing behind them.

`python -m dygcn_lab.costs.load_server DIR` serves until SIGTERM and prints its address as JSON.
"""

from __future__ import annotations

import sys

import msgspec

from dygcn._extras import extra
from dygcn.serving.service.answers import OneVector
from dygcn.serving.service.app import make_app, serve_app
from dygcn.serving.service.service import Service
from dygcn.serving.service.settings import Http, ServiceSettings, check_settings
from dygcn.testing.subprocess_ready import tell

with extra("serve"):
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route


def bare_route(answer: OneVector) -> Route:
    """Return a route that encodes one answer again and again."""
    encode = msgspec.json.Encoder().encode

    async def bare(request: Request) -> Response:
        return Response(encode(answer), media_type="application/json")

    return Route("/bare/{id:path}", bare)


def main(folder: str) -> None:
    """Serve a folder with the bare route beside."""
    service = Service(check_settings(ServiceSettings(folder=folder, http=Http(port=0))))
    node = next(iter(service.live))
    sequence, vector = service.vector(node)
    assert vector is not None
    app = make_app(service)
    app.router.routes.append(bare_route(OneVector(sequence, node, vector.tolist())))
    serve_app(app, service.settings, tell)


if __name__ == "__main__":
    main(sys.argv[1])
