"""A client of the service: `Client` for programs that wait, `AsyncClient` for asyncio."""

from __future__ import annotations

from dygcn.client.clients import AsyncClient, Client

__all__ = ["AsyncClient", "Client"]
