"""Messages and queries between processes, over Arrow Flight.

Every message names its sender, the epoch of that, and its receiver: one from a process that has a successor
is refused, and so is one that reaches a process which took over the port of another. A process without a
certificate of the cluster cannot send at all: see `certificates`. Sending never waits. Messages to a process
that is dead or slow are dropped; a receiver requests again what it misses.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import flight

from dygcn.cluster.certificates import NAME, Credentials
from dygcn.cluster.messages import Members
from dygcn.cluster.wire import pack, pack_error, unpack, unpack_error
from dygcn.errors import ClusterError, DygcnError, OptionError

_Envelope = tuple[int, int, int, list[bytes]]  # sender, its epoch, receiver, messages
_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(_Envelope).decode
_MOST_WAITING = 4_096  # messages to one receiver
_AT_ONCE = 4 << 20  # bytes, from which on a call takes no further message
_PATIENCE = 3.0  # seconds for a call, and one more
_SPEED = 20e6  # for so many bytes
_PAUSE = 0.1  # seconds, after a call that failed
_FIRST = 60.0  # seconds for a call to itself, which only fails if the certificates do
_NOT_YET, _REPLY, _ERROR = b"\0", b"\1", b"\2"


class Post:
    """Sends and receives for one process: a `Network`.

    `take` is called with every message, `reply` with every query (None: no reply yet), both in threads of the
    server; `take` must not wait. As long as `epoch` is 0, it is not known, and every message is refused. Also
    refused are those of replaced senders, and for other receivers. Raises `OptionError` if a process with
    these credentials would not let in one with the same.
    """

    def __init__(
        self,
        number: int,
        credentials: Credentials,
        take: Callable[[Any], None],
        reply: Callable[[Any], Any],
        host: str = "127.0.0.1",
    ) -> None:
        self.number, self.epoch = number, 0
        self._take, self._reply = take, reply
        self._how = {"tls_root_certs": credentials.ca, "override_hostname": NAME}
        self._how |= {"cert_chain": credentials.certificate, "private_key": credentials.key}
        self._newest: dict[int, int] = {}  # epoch of each sender
        self._lines: dict[int, _Line] = {}
        self._version = (0, 0)
        self._clients: dict[str, flight.FlightClient] = {}
        self._lock = threading.Lock()
        self.sent = self.dropped = self.refused = 0
        try:
            self._server = _Server(f"grpc+tls://{host}:0", self, credentials)
            self.location = f"grpc+tls://{host}:{self._server.port}"
            self.call(self.location, "query", b"", _FIRST)
        except (flight.FlightError, pa.ArrowException) as error:
            raise OptionError(
                "processes with this certificate, key and ca do not let each other in. Give them as PEM, "
                f"and the certificate signed by the ca, its first alternative name DNS:{NAME}: {error}"
            ) from None

    # ---- messages --------------------------------------------------------------------------------------

    def connect(self, members: Members) -> None:
        """Send to these from now on, and refuse messages of their predecessors."""
        with self._lock:
            if (members.front, members.version) <= self._version:
                return
            self._version = members.front, members.version
            here = {member.number: member for member in members.all if member.number != self.number}
            for number, line in list(self._lines.items()):
                if number not in here or here[number].location != line.location:
                    self._lines.pop(number).close()
            for number, member in here.items():
                self._newest[number] = max(self._newest.get(number, 0), member.epoch)
                if number not in self._lines:
                    self._lines[number] = _Line(self, number, member.location)

    def send(self, to: int, message: Any) -> None:
        """Send a message to a process by its number; never waits."""
        self.send_to_all([to], message)

    def send_to_all(self, numbers: Iterable[int], message: Any) -> None:
        """Send a message to several processes; never waits."""
        body = pack(message)
        for to in numbers:
            line = self._lines.get(to)
            if line is None or not line.put(body):
                self.dropped += 1
            else:
                self.sent += 1

    def receive(self, body: bytes) -> None:
        """Take messages, unless their sender was replaced or they are for another process."""
        sender, epoch, to, messages = _decode(body)
        with self._lock:
            stale = epoch < self._newest.get(sender, 0)
            if stale or to != self.number or not self.epoch:
                self.refused += len(messages)
                return
            self._newest[sender] = epoch
        for one in messages:
            message = unpack(one)
            if getattr(message, "sender", sender) == sender:
                self._take(message)
            else:
                self.refused += 1

    # ---- queries ---------------------------------------------------------------------------------------

    def query(self, location: str, query: Any, patience: float = _PATIENCE) -> Any:
        """Send a query and wait for the reply; None: no reply yet, or no process.

        An error of the other process, which it would have again, is raised here with its class.
        """
        try:
            body = self.call(location, "query", pack(query), patience)
        except (flight.FlightError, pa.ArrowException, OSError):
            self.forget(location)
            return None
        if body[:1] == _ERROR:
            raise unpack_error(body[1:])
        return None if body[:1] == _NOT_YET else unpack(memoryview(body)[1:])

    def reply(self, body: bytes) -> bytes:
        """Return the reply to a query, as bytes."""
        try:
            reply = self._reply(unpack(body))
            return _NOT_YET if reply is None else _REPLY + pack(reply)
        except DygcnError as error:
            return _ERROR + pack_error(error)

    # ---- calls -----------------------------------------------------------------------------------------

    def call(self, location: str, action: str, body: bytes, patience: float = _PATIENCE) -> bytes:
        """Call a process, and return its response."""
        with self._lock:
            client = self._clients.get(location)
            if client is None:
                client = self._clients[location] = flight.FlightClient(location, **self._how)
        options = flight.FlightCallOptions(timeout=patience + len(body) / _SPEED)
        results = client.do_action(flight.Action(action, pa.py_buffer(body)), options)
        return b"".join(result.body.to_pybytes() for result in results)

    def hangs(self, location: str, seconds: float) -> bool:
        """Return whether a process accepts calls but does not reply; calls to a dead process fail at once."""
        try:
            self.call(location, "query", b"", seconds)
        except flight.FlightTimedOutError:
            return True
        except (flight.FlightError, pa.ArrowException, OSError):
            self.forget(location)
        return False

    def forget(self, location: str) -> None:
        """Open a new connection at the next call."""
        with self._lock:
            self._clients.pop(location, None)

    def close(self) -> None:
        """Close; unsent messages are dropped."""
        with self._lock:
            lines, self._lines = list(self._lines.values()), {}
        for line in lines:
            line.close()
        self._server.shutdown()


class _Line:
    def __init__(self, post: Post, to: int, location: str) -> None:
        self._post, self._to, self.location = post, to, location
        self._waiting: queue.Queue[bytes] = queue.Queue(_MOST_WAITING)
        self._closed = threading.Event()
        threading.Thread(target=self._run, name=f"to {to}", daemon=True).start()

    def put(self, body: bytes) -> bool:
        """Append a message; return False if the queue is full."""
        try:
            self._waiting.put_nowait(body)
        except queue.Full:
            return False
        return True

    def close(self) -> None:
        """Drop what was not sent, and end the thread."""
        self._closed.set()
        self.put(b"")  # it may wait for a message

    def _run(self) -> None:
        post = self._post
        while True:
            messages = [self._waiting.get()]
            size = len(messages[0])
            while size < _AT_ONCE and not self._waiting.empty():  # nothing else takes from it
                messages.append(self._waiting.get())
                size += len(messages[-1])
            if self._closed.is_set():
                return
            envelope = _encode((post.number, post.epoch, self._to, messages))
            try:
                post.call(self.location, "send", envelope)
            except (flight.FlightError, pa.ArrowException, OSError):
                post.dropped += len(messages)
                post.forget(self.location)
                self._closed.wait(_PAUSE)


class _Server(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(self, location: str, post: Post, mine: Credentials) -> None:
        self._post = post
        shown = [(mine.certificate, mine.key)]
        super().__init__(location, tls_certificates=shown, verify_client=True, root_certificates=mine.ca)

    def do_action(self, context: Any, action: Any) -> Iterator[flight.Result]:
        """Take messages, or reply to a query; a ca may also sign for others than this cluster."""
        if (peer := context.peer_identity()) != NAME.encode():
            raise flight.FlightUnauthenticatedError(
                f"the first name of the certificate is {peer}, not {NAME}"
            )
        body = action.body.to_pybytes()
        try:
            if action.type == "query":
                return iter([flight.Result(pa.py_buffer(self._post.reply(body)))])
            if action.type == "send":
                self._post.receive(body)
                return iter([])
        except (ClusterError, msgspec.MsgspecError) as error:
            raise flight.FlightServerError(str(error)) from None
        raise flight.FlightServerError(f"no action {action.type}: there are send and query")
