"""A writer behind a reader that answers as it is told, and keeps what came."""

import re
import socket
import threading
from contextlib import contextmanager, suppress

from dygcn.serving.readers.upstream import _ALIVE

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


class FakeWriter:
    """Answers every head that comes, whether or not there is a body behind it.

    Attributes
    ----------
    streams
        What came, connection by connection.
    answers
        What is sent for the next requests, in place of the usual; None: nothing. Empty: the usual.
    ended
        How many connections the other side has closed.
    go
        Nothing is answered while it is not set.
    looks
        How often the writer was asked for a sign of life, which it always gives.
    """

    def __init__(self, path):
        self.streams, self.answers, self.ended, self.go = [], [], 0, threading.Event()
        self.looks = 0
        self.go.set()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def heads(self):
        """The first lines of all requests."""
        return [one for stream in self.streams for one in re.findall(rb"[A-Z]+ \S+ HTTP/1.1", stream)]

    def headers(self, name):
        """Return the values of a header in everything that came."""
        return re.findall(rb"\r\n%b: ([^\r]*)" % name, b"".join(self.streams), re.IGNORECASE)

    def close(self):
        self._listening.close()

    def _accept(self):
        while True:
            try:
                one, _ = self._listening.accept()
            except OSError:
                return
            self.streams.append(b"")
            threading.Thread(target=self._answer, args=(one, len(self.streams) - 1), daemon=True).start()

    def _answer(self, one, number):
        with one, suppress(OSError):
            while part := one.recv(1 << 20):
                if part == _ALIVE:  # from a reader that has waited for a while
                    self.looks += 1
                    one.sendall(ANSWER)
                    continue
                self.streams[number] += part
                for _ in re.findall(rb" HTTP/1.1\r\n", part):
                    if self.go.is_set():
                        self._send(one)
                    else:  # what comes is read meanwhile
                        threading.Thread(target=self._send, args=(one,), daemon=True).start()
        self.ended += 1

    def _send(self, one):
        self.go.wait(60)
        answer = self.answers.pop(0) if self.answers else ANSWER
        if answer is not None:
            with suppress(OSError):
                one.sendall(answer)
                if b"close" in answer:
                    one.shutdown(socket.SHUT_RDWR)


@contextmanager
def fake_writer(path):
    """Listen at a path until the end of the block."""
    one = FakeWriter(path)
    try:
        yield one
    finally:
        one.close()


def is_whole(stream):
    """Say whether bytes are requests, each with as much of a body as it says."""
    while stream:
        head, mark, stream = stream.partition(b"\r\n\r\n")
        found = re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
        length = int(found.group(1)) if found else 0
        if not mark or len(stream) < length or not re.match(rb"[A-Z]+ /", head):
            return False
        stream = stream[length:]
    return True
