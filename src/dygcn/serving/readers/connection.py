"""A connection that answers the read of one vector before there is a task, a scope or a response object.

That read is most of what a reader does, and a web framework costs several times what the vector costs: a
task for each request, and two writes to the socket. Everything that is not plainly ``GET /v1/vectors/ID``
takes the usual way. A connection on which nothing more comes is closed with other silent ones, and not by a
timer, which would be set and cancelled for every request.
"""

from __future__ import annotations

from typing import Any

from dygcn.serving.service.server import Connection

_LONGEST = 256  # bytes of a path
_MARKS = b"?", b"%", b"#"  # after which a path has to be parsed


class _Answered:
    """Stands in for uvicorn's request cycle after an immediate answer; one object for each request."""

    __slots__ = ()
    response_complete = True

    @property
    def message_event(self) -> _Answered:
        """The event that uvicorn sets when more of a request arrives."""
        return self

    def set(self) -> None:
        """Do nothing: no task waits."""


class ReaderConnection(Connection):
    """Answers at once if `server_state.at_once` returns an answer."""

    cycle: Any

    def on_headers_complete(self) -> None:
        """Answer at once, or start a normal request."""
        if not self._answers_at_once():
            super().on_headers_complete()

    def _answers_at_once(self) -> bool:
        state, url = self.server_state, self.url
        if (
            not url.startswith(state.prefix)
            or len(url) > _LONGEST
            or any(mark in url for mark in _MARKS)
            or self.parser.get_method() != b"GET"
            or (self.cycle is not None and not self.cycle.response_complete)  # it comes after another one
            or self.flow.write_paused  # the client does not take what it asked for
            or self.transport.is_closing()
            or self.parser.get_http_version() != "1.1"
            or not self.parser.should_keep_alive()
            or self.parser.should_upgrade()
        ):
            return False
        answer = state.at_once(url, self.headers, self.client)
        if answer is None:
            return False
        self.transport.write(answer)
        state.total_requests += 1
        self.cycle = _Answered()
        return True
