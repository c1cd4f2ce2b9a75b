"""A disk that keeps only what was synced: files and names as a recorded process left them, at any moment.

What `fsync` returned from is there after a loss of power. Of what was written behind it, any part may be:
nothing, all, the first so many calls, any calls, any sectors of any calls. The name of a file is there when
the folder that holds it was synced; until then a creation, a removal or a renaming may have happened or not.
What stands in the cache when an `fsync` fails may never be written, even if a later one works (as on Linux).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random

from dygcn_lab.soak.promises.disk_trace import Call

SECTOR = 512
WAITING, SETTLED, DOUBTFUL = "waiting", "settled", "doubtful"  # doubtful: its sync failed
_EXCHANGE = 2  # the flag of a rename that exchanges two names
_MAPPED = "-shm"  # SQLite maps it and builds it anew; it is in no image


class TraceError(Exception):
    """A trace that does not fit what is known of the disk: a call was not recorded."""


@dataclass(slots=True, eq=False)
class Written:
    """Bytes at an offset; or, without any, a new size."""

    offset: int
    data: bytes | None
    state: str = WAITING

    def onto(self, content: bytearray) -> None:
        """Do it."""
        if self.data is None:
            del content[self.offset :]
            content.extend(bytes(self.offset - len(content)))
        else:
            content.extend(bytes(max(self.offset - len(content), 0)))
            content[self.offset : self.offset + len(self.data)] = self.data

    def sectors(self) -> list[Written]:
        """Return it cut where a disk may tear it."""
        if self.data is None:
            return [self]
        first = SECTOR - self.offset % SECTOR
        cuts = [0, *range(first, len(self.data), SECTOR), len(self.data)]
        pieces = pairwise(cuts)
        return [Written(self.offset + a, self.data[a:b]) for a, b in pieces]


@dataclass(slots=True, eq=False)
class File:
    """What of a file is on disk for certain, and what was written since."""

    content: bytearray = field(default_factory=bytearray)
    since: list[Written] = field(default_factory=list)

    def sync(self, worked: bool) -> None:
        """Settle what was written, or learn that nobody knows."""
        for write in self.since:
            if write.state == WAITING:
                write.state = SETTLED if worked else DOUBTFUL
        while self.since and self.since[0].state == SETTLED:
            self.since.pop(0).onto(self.content)

    def now(self) -> bytes:
        """Return what a process reads."""
        content = bytearray(self.content)
        for write in self.since:
            write.onto(content)
        return bytes(content)

    def after_loss(self, random: Random) -> bytes:
        """Return what a disk may hold after a loss of power."""
        content, loose = bytearray(self.content), [w for w in self.since if w.state != SETTLED]
        if not loose:
            return bytes(content)
        how = random.choice(("none", "all", "first", "calls", "calls", "sectors", "sectors"))
        share, cut = random.choice((0.1, 0.5, 0.9)), random.randrange(len(loose) + 1)
        first = set(map(id, loose[:cut]))
        for write in self.since:
            whole = how == "all" or (how == "first" and id(write) in first)
            if write.state == SETTLED or whole or (how == "calls" and random.random() < share):
                write.onto(content)
            for piece in write.sectors() if how == "sectors" and write.state != SETTLED else ():
                if random.random() < share:
                    piece.onto(content)
        return bytes(content)


@dataclass(slots=True, eq=False)
class Folder:
    """Names on disk for certain."""

    names: dict[str, File | Folder] = field(default_factory=dict)


Name = tuple[Folder, str]


@dataclass(slots=True, eq=False)
class Renamed:
    """A change of names that no sync has settled: all of it happens, or none."""

    gone: Name | None
    come: Name | None
    what: File | Folder

    def names(self) -> list[tuple[int, str]]:
        """Return the names that it is about."""
        return [(id(folder), name) for folder, name in filter(None, (self.gone, self.come))]

    def folders(self) -> set[int]:
        """Return the folders that it is about."""
        return {folder for folder, _ in self.names()}

    def onto(self, names: Callable[[Folder], dict[str, File | Folder]]) -> None:
        """Do it."""
        if self.gone is not None:
            names(self.gone[0]).pop(self.gone[1], None)
        if self.come is not None:
            names(self.come[0])[self.come[1]] = self.what


@dataclass(slots=True, eq=False)
class Exchanged(Renamed):
    """Two names that were exchanged in one step."""

    back: File | Folder

    def onto(self, names: Callable[[Folder], dict[str, File | Folder]]) -> None:
        """Do it."""
        assert self.gone is not None
        assert self.come is not None
        names(self.come[0])[self.come[1]] = self.what
        names(self.gone[0])[self.gone[1]] = self.back


class Disk:
    """A folder as it was, and everything that a trace says happened to it since.

    `folder`: read now; all of it counts as synced.
    """

    def __init__(self, folder: Path) -> None:
        self.root = _read(folder)
        self._seen: dict[int, dict[str, File | Folder]] = {}  # names as a process sees them
        self._kept: list[Folder] = []  # so that no id of one is given to another
        self._since: list[Renamed] = []
        self._open: dict[int, File | Folder] = {}
        self._inodes: dict[int, tuple[File | Folder, Name]] = {}

    # ---- what happens ------------------------------------------------------------------------------------

    def apply(self, call: Call) -> None:
        """Let a recorded call happen."""
        if call.kind in ("write", "truncate", "sync", "close"):
            self._on_file(call)
        elif call.kind == "open":
            self._opened(call)
        elif call.kind == "process":
            self._open.clear()
        elif call.kind == "mkdir":
            self._rename(None, self._name(call.path), Folder())
        elif call.kind in ("unlink", "rmdir"):
            self._catch_up(call)
            self._rename(self._name(call.path), None)
        elif call.kind == "rename":
            self._catch_up(call)
            old, new = self._name(call.path), self._name(call.data.decode())
            if call.first == _EXCHANGE:
                self._exchange(old, new)
            elif call.first == 0:
                self._rename(old, new)
            else:
                raise TraceError(f"{call.path} was renamed in a way that is not known here")

    def _on_file(self, call: Call) -> None:
        node = self._open.get(call.fd)
        if node is None:
            raise TraceError(f"a {call.kind} on file {call.fd}, which is not open")
        if call.kind == "close":
            del self._open[call.fd]
        elif call.kind == "sync":
            if isinstance(node, File):
                node.sync(call.first == 1)
            elif call.first == 1:
                self._settle(node)
        elif isinstance(node, File):
            node.since.append(Written(call.first, call.data if call.kind == "write" else None))

    def _opened(self, call: Call) -> None:
        if call.data == b"\0" and self._find(call.path) is None:
            self._rename(None, self._name(call.path), File())
        self._catch_up(call)
        node = self._find(call.path)
        if node is None:
            raise TraceError(f"{call.path} was there, and nothing says how it came there")
        if call.path:
            self._inodes[call.second] = (node, self._name(call.path))
        self._open[call.fd] = node
        if call.first and isinstance(node, File):
            node.since.append(Written(0, None))

    def _catch_up(self, call: Call) -> None:
        """Let a file get the name that it has: Rust renames without a call that could be recorded."""
        node, old = self._inodes.get(call.second, (None, None))
        if self._find(call.path) is None and old is not None and self._names(old[0]).get(old[1]) is node:
            self._rename(old, self._name(call.path))

    def _rename(self, gone: Name | None, come: Name | None, what: File | Folder | None = None) -> None:
        if gone is not None:
            what = self._names(gone[0]).get(gone[1])
        if what is None:
            raise TraceError(f"{gone[1] if gone else ''!r} went away, and was not there")
        change = Renamed(gone, come, what)
        change.onto(self._names)
        self._since.append(change)

    def _exchange(self, one: Name, other: Name) -> None:
        found = self._names(one[0]).get(one[1]), self._names(other[0]).get(other[1])
        if found[0] is None or found[1] is None:
            raise TraceError(f"{one[1]!r} and {other[1]!r} were exchanged, and are not both there")
        change = Exchanged(one, other, found[0], found[1])
        change.onto(self._names)
        self._since.append(change)

    def _settle(self, folder: Folder) -> None:
        """Put the names of a folder on disk, and what these depend on."""
        settled, names = set(), set[tuple[int, str]]()
        for change in reversed(self._since):
            if id(folder) in change.folders() or names & set(change.names()):
                settled.add(id(change))
                names |= set(change.names())
        for change in self._since:
            if id(change) in settled:
                change.onto(lambda one: one.names)
        self._since = [change for change in self._since if id(change) not in settled]

    # ---- what is there -----------------------------------------------------------------------------------

    def _names(self, folder: Folder) -> dict[str, File | Folder]:
        found = self._seen.get(id(folder))
        if found is None:
            found = self._seen[id(folder)] = dict(folder.names)
            self._kept.append(folder)
        return found

    def _name(self, path: str) -> Name:
        above, _, name = path.rpartition("/")
        folder = self._find(above)
        if not isinstance(folder, Folder):
            raise TraceError(f"{path} is in a folder that is not there")
        return folder, name

    def _find(self, path: str) -> File | Folder | None:
        node: File | Folder | None = self.root
        for part in filter(None, path.split("/")):
            node = self._names(node).get(part) if isinstance(node, Folder) else None
        return node

    def now(self) -> dict[str, bytes]:
        """Return path and content of every file, as a process sees them."""
        return _files(self.root, self._names, File.now)

    def after_loss(self, random: Random) -> dict[str, bytes]:
        """Return path and content of every file, as a loss of power may leave them."""
        names: dict[int, dict[str, File | Folder]] = {}

        def of(folder: Folder) -> dict[str, File | Folder]:
            return names.setdefault(id(folder), dict(folder.names))

        share, ordered = random.choice((0.0, 0.2, 0.5, 0.8, 1.0)), random.random() < 0.5
        cut, lost = random.randrange(len(self._since) + 1), set[tuple[int, str]]()
        for i, change in enumerate(self._since):
            kept = i < cut if ordered else random.random() < share
            if kept and not lost & set(change.names()):
                change.onto(of)
            else:
                lost |= set(change.names())
        return _files(self.root, of, lambda file: file.after_loss(random))


def _files(
    folder: Folder,
    names: Callable[[Folder], dict[str, File | Folder]],
    content: Callable[[File], bytes],
    above: str = "",
) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name, node in names(folder).items():
        if isinstance(node, Folder):
            found |= {above + name + "/": b""} | _files(node, names, content, f"{above}{name}/")
        elif not name.endswith(_MAPPED):
            found[above + name] = content(node)
    return found


def _read(folder: Path) -> Folder:
    names: dict[str, File | Folder] = {}
    for path in folder.iterdir():
        names[path.name] = _read(path) if path.is_dir() else File(bytearray(path.read_bytes()))
    return Folder(names)


def write_image(files: dict[str, bytes], folder: Path) -> None:
    """Write files to an empty folder."""
    folder.mkdir()
    for path, content in files.items():
        if path.endswith("/"):
            (folder / path).mkdir(exist_ok=True)
        else:
            (folder / path).write_bytes(content)


def files_of(folder: Path) -> dict[str, bytes]:
    """Return path and content of every file, in the form that `Disk.now` has."""
    root = _read(folder)
    return _files(root, lambda one: one.names, File.now)
