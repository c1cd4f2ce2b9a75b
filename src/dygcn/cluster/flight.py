"""Messages and questions between processes, over Arrow Flight.

Whatever is sent names its sender, the epoch of that, and its receiver: a process that has a successor is not
listened to, and neither is one that takes the port of another for the one it looks for. A process without a
certificate of the cluster cannot send at all: see `certificates`. Sending never waits. Messages to a process
that is dead or slow are dropped: whoever needs them asks again.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyarrow import flight

from dygcn.cluster.certificates import NAME
from dygcn.cluster.refusals import pack_refusal, unpack_refusal
from dygcn.cluster.wire import pack, unpack
from dygcn.errors import ClusterError, DygcnError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dygcn.cluster.certificates import Credentials
    from dygcn.cluster.members import Members

_Envelope = tuple[int, int, int, list[bytes]]  # sender, its epoch, receiver, messages
_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(_Envelope).decode
_MOST_WAITING = 4_096  # messages to one receiver
_AT_ONCE = 4 << 20  # bytes in a call, unless one message is larger
_PATIENCE = 3.0  # seconds for a call, and one more
_SPEED = 20e6  # for so many bytes
_PAUSE = 0.1  # seconds, after a call that failed
_FIRST = 60.0  # for a call to itself, when nothing else can be the matter
_NOT_YET, _ANSWER, _ERROR = b"\0", b"\1", b"\2"


class Post:
    """Sends and receives for one process: a `Network`.

    Parameters
    ----------
    number
        Of the shard, or `SEQUENCER`.
    credentials
        What this process shows to others, and by what it knows them.
    take
        Called with every message, in a thread of the server; must not wait.
    answer
        Called with every question, in a thread of the server; None: not yet.
    host
        The address to listen at, and under which others find this process.

    Attributes
    ----------
    epoch
        Of this process; 0 until it is known, and then nothing is taken.
    sent, sent_bytes, dropped, refused
        Counts of messages: refused are those of stale senders, and for other receivers.

    Raises
    ------
    OptionError
        If a process with these credentials would not let in one with the same.
    """

    def __init__(
        self,
        number: int,
        credentials: Credentials,
        take: Callable[[Any], None],
        answer: Callable[[Any], Any],
        host: str = "127.0.0.1",
    ) -> None:
        self.number, self.epoch = number, 0
        self._take, self._answer = take, answer
        self._how = {"tls_root_certs": credentials.ca, "override_hostname": NAME}
        self._how |= {"cert_chain": credentials.certificate, "private_key": credentials.key}
        self._newest: dict[int, int] = {}  # epoch of each sender
        self._lines: dict[int, _Line] = {}
        self._version = (0, 0)
        self._clients: dict[str, flight.FlightClient] = {}
        self._lock = threading.Lock()
        self.sent = self.sent_bytes = self.dropped = self.refused = 0
        try:
            self._server = _Server(f"grpc+tls://{host}:0", self, credentials)
            self.location = f"grpc+tls://{host}:{self._server.port}"
            self.call(self.location, "ask", b"", _FIRST)
        except (flight.FlightError, pa.ArrowException) as error:
            raise OptionError(
                "processes with this certificate, key and ca do not let each other in. Give them as PEM, "
                f"and the certificate signed by the ca, its first alternative name DNS:{NAME}: {error}"
            ) from None

    # ---- messages --------------------------------------------------------------------------------------

    def connect(self, members: Members) -> None:
        """Send to these from now on, and listen to no predecessor of theirs."""
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
                self.sent_bytes += len(body)

    def receive(self, body: bytes) -> None:
        """Take what came in, unless it is of a stale sender or for another."""
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

    # ---- questions -------------------------------------------------------------------------------------

    def ask(self, location: str, question: Any, patience: float = _PATIENCE) -> Any:
        """Ask a process, and wait.

        Returns
        -------
        object
            The answer; None: not yet, or nobody was there.

        Raises
        ------
        DygcnError
            If there is none, for a reason that stays: of the class that it had there.
        """
        try:
            body = self.call(location, "ask", pack(question), patience)
        except (flight.FlightError, pa.ArrowException, OSError):
            self.forget(location)
            return None
        if body[:1] == _ERROR:
            raise unpack_refusal(body[1:])
        return None if body[:1] == _NOT_YET else unpack(memoryview(body)[1:])

    def answer(self, body: bytes) -> bytes:
        """Return the answer to a question, as bytes."""
        try:
            answer = self._answer(unpack(body))
            return _NOT_YET if answer is None else _ANSWER + pack(answer)
        except DygcnError as error:
            return _ERROR + pack_refusal(error)

    # ---- calls -----------------------------------------------------------------------------------------

    def call(self, location: str, action: str, body: bytes, patience: float = _PATIENCE) -> bytes:
        """Call a process, and return what it gives back."""
        with self._lock:
            client = self._clients.get(location)
            if client is None:
                client = self._clients[location] = flight.FlightClient(location, **self._how)
        options = flight.FlightCallOptions(timeout=patience + len(body) / _SPEED)
        results = client.do_action(flight.Action(action, pa.py_buffer(body)), options)
        return b"".join(result.body.to_pybytes() for result in results)

    def hangs(self, location: str, seconds: float) -> bool:
        """Say whether there is a process that does not answer: one that is dead refuses at once."""
        try:
            self.call(location, "ask", b"", seconds)
        except flight.FlightTimedOutError:
            return True
        except (flight.FlightError, pa.ArrowException, OSError):
            self.forget(location)
        return False

    def forget(self, location: str) -> None:
        """Connect anew at the next call."""
        with self._lock:
            self._clients.pop(location, None)

    def close(self) -> None:
        """End; what was not sent is dropped."""
        with self._lock:
            lines, self._lines = list(self._lines.values()), {}
        for line in lines:
            line.close()
        self._server.shutdown()


class _Line:
    """What waits for one receiver, and the thread that sends it."""

    def __init__(self, post: Post, to: int, location: str) -> None:
        self._post, self._to, self.location = post, to, location
        self._waiting: deque[bytes] = deque()
        self._there = threading.Condition()
        self._closed = False
        threading.Thread(target=self._run, name=f"to {to}", daemon=True).start()

    def put(self, body: bytes) -> bool:
        """Let a message wait; say whether there was room."""
        with self._there:
            if self._closed or len(self._waiting) >= _MOST_WAITING:
                return False
            self._waiting.append(body)
            self._there.notify()
            return True

    def close(self) -> None:
        with self._there:
            self._closed = True
            self._there.notify()

    def _next(self) -> list[bytes] | None:
        """Wait for messages, and return as many as one call takes; None: there will be none."""
        with self._there:
            while not self._waiting and not self._closed:
                self._there.wait()
            if self._closed:
                return None
            messages = [self._waiting.popleft()]
            size = len(messages[0])
            while self._waiting and size + len(self._waiting[0]) <= _AT_ONCE:
                messages.append(self._waiting.popleft())
                size += len(messages[-1])
            return messages

    def _run(self) -> None:
        post = self._post
        while (messages := self._next()) is not None:
            envelope = _encode((post.number, post.epoch, self._to, messages))
            try:
                post.call(self.location, "send", envelope)
            except (flight.FlightError, pa.ArrowException, OSError):
                post.dropped += len(messages)
                post.forget(self.location)
                with self._there:
                    self._there.wait_for(lambda: self._closed, _PAUSE)


class _Server(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(self, location: str, post: Post, mine: Credentials) -> None:
        self._post = post
        shown = [(mine.certificate, mine.key)]
        super().__init__(location, tls_certificates=shown, verify_client=True, root_certificates=mine.ca)

    def do_action(self, context: Any, action: Any) -> Iterator[flight.Result]:
        """Take messages, or answer a question; a ca may also sign for others than this cluster."""
        if (peer := context.peer_identity()) != NAME.encode():
            raise flight.FlightUnauthenticatedError(
                f"the first name of the certificate is {peer}, not {NAME}"
            )
        body = action.body.to_pybytes()
        try:
            if action.type == "ask":
                return iter([flight.Result(pa.py_buffer(self._post.answer(body)))])
            if action.type == "send":
                self._post.receive(body)
                return iter([])
        except (ClusterError, msgspec.MsgspecError) as error:
            raise flight.FlightServerError(str(error)) from None
        raise flight.FlightServerError(f"no action {action.type}: there are send and ask")
