"""A client that asks the same of a service again and again: `python -m dygcn_lab.costs.asking`.

In a process of its own, since reading large answers would hold up whoever measures beside it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from dygcn._extras import extra

with extra("serve"):
    import httpx

_ROWS = 1_000  # of a page


class Asked(msgspec.Struct, frozen=True):
    """Whom, and which ids at once; none: pages of changes, from the beginning again at their end."""

    address: str
    ids: list[int]


class _Page(msgspec.Struct):
    next: str
    more: bool


@contextmanager
def asking(address: str, ids: Sequence[int] = ()) -> Iterator[None]:
    """Have somebody ask until the end of the block."""
    command = [sys.executable, "-m", "dygcn_lab.costs.asking"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with process.stdin as pipe:
            pipe.write(msgspec.json.encode(Asked(address, list(ids))))
        process.stdout.readline()  # the first answer has come
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def main() -> None:
    """Ask until somebody ends the process."""
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Asked)
    body, since, first = msgspec.json.encode({"ids": asked.ids}), "", True
    with httpx.Client(base_url=asked.address, timeout=60.0) as client:
        while True:
            if asked.ids:
                headers = {"content-type": "application/json"}
                client.post("/v1/vectors", content=body, headers=headers).raise_for_status()
            else:
                answer = client.get("/v1/changes", params={"since": since, "limit": _ROWS})
                page = msgspec.json.decode(answer.content, type=_Page)
                since = page.next if page.more else ""
            if first:
                sys.stdout.write("asked\n")
                sys.stdout.flush()
                first = False


if __name__ == "__main__":
    main()
