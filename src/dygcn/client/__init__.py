"""A client of the service: `Client` for programs that wait, `AsyncClient` for asyncio.

What is asked, how often, and what an answer means is decided once, without any network (`questions`,
`sending`, `letters`, `trying`); the two clients only carry requests there and answers back.
"""

from __future__ import annotations

from dygcn.client.asynchronous import AsyncClient
from dygcn.client.blocking import Client

__all__ = ["AsyncClient", "Client"]
