"""A client of the service: `Client` for programs that wait, `AsyncClient` for asyncio.

Which requests an operation takes, what is repeated, and what an answer means is decided once, without any
network (`operations`, `sending`, `retry`); the two clients only exchange requests for
replies.
"""

from __future__ import annotations

from dygcn.client.clients import AsyncClient, Client

__all__ = ["AsyncClient", "Client"]
