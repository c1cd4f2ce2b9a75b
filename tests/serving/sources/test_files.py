"""Files that grow."""

import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dygcn.errors import OptionError, SourceError
from dygcn.serving.sources import FileSettings, files
from dygcn.testing import source_checks
from dygcn.testing.source_checks import SOURCE_CHECKS


def append(path, *lines):
    with path.open("ab") as file:
        file.write(b"".join(line + b"\n" for line in lines))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "events.ndjson"
    path.touch()
    return path


OPEN = []


@pytest.fixture(autouse=True)
def all_closed(monkeypatch):
    for name, seconds in (("QUIET", 0.1), ("FIRST", 0.2)):  # no broker: a look finds what is there
        monkeypatch.setattr(source_checks, name, seconds)
    yield
    while OPEN:
        OPEN.pop().close()


def opened(path, after=None, **options):
    source = FileSettings(path=str(path), **options).make()
    source.open(after or {})
    OPEN.append(source)
    return source


def bodies(source, limit=1000, timeout=0.0):
    return [message.body for message in source.read(limit, timeout)]


@pytest.mark.parametrize("name", sorted(SOURCE_CHECKS))
def test_a_file_does_what_a_source_promises(name, file):
    settings = FileSettings(path=str(file))
    SOURCE_CHECKS[name](settings.make, lambda lines: append(file, *lines))


@pytest.mark.parametrize("name", ["order", "resume", "twice", "beginning", "limit", "lag"])
def test_a_folder_does_what_a_source_promises(name, tmp_path):
    turn = iter(range(10**9))

    def publish(lines):
        for line in lines:
            append(tmp_path / f"part-{next(turn) % 3}.ndjson", line)

    SOURCE_CHECKS[name](lambda: FileSettings(path=str(tmp_path)).make(), publish)


def test_positions_are_bytes_behind_lines(file):
    append(file, b'{"a": 1}', "ø".encode(), b"", b"  ", b"last\r")
    messages = opened(file).read(10, 0.0)
    assert [(message.offset, message.body) for message in messages] == [
        (9, b'{"a": 1}'),
        (12, "ø".encode()),
        (22, b"last"),
    ]
    assert {(message.stream, message.form) for message in messages} == {("file:events.ndjson", "ndjson")}
    assert file.read_bytes()[:12].endswith(b"\n")


def test_the_form_of_a_line_is_set(file):
    append(file, b"[]")
    assert opened(file, form="json").read(1, 0.0)[0].form == "json"


def test_a_line_without_its_end_waits(file):
    source = opened(file)
    with file.open("ab") as writer:
        for part, expected in ((b'{"src"', []), (b": 1}", []), (b"\n{", [b'{"src": 1}']), (b"}\n", [b"{}"])):
            writer.write(part)
            writer.flush()
            assert bodies(source) == expected
    assert source.lag() == 0


def test_waiting_ends_when_a_line_comes(file):
    source = opened(file)
    timer = threading.Timer(0.1, append, [file, b"x"])
    timer.start()
    assert bodies(source, timeout=20) == [b"x"]
    timer.join()


def test_the_lag_is_in_bytes(file):
    append(file, b"12345", b"67")
    source = opened(file)
    source.read(1, 0.0)
    assert source.lag() == 3


def test_long_lines_are_cut_but_not_lost(file, monkeypatch):
    monkeypatch.setattr(files, "LONGEST_LINE", 10)
    append(file, b"x" * 25, b"short", b"y" * 9, b"z" * 10)
    source = opened(file)
    messages = source.read(10, 0.0)
    assert [message.body for message in messages] == [b"x" * 10, b"short", b"y" * 9, b"z" * 10]
    assert [message.offset for message in messages] == [26, 32, 42, 53]
    with file.open("ab") as writer:
        writer.write(b"w" * 30)
    assert bodies(source) == []
    append(file, b"", b"end")
    assert bodies(source) == [b"w" * 10, b"end"]


def test_a_file_that_shrank(file):
    append(file, b"one", b"two")
    source = opened(file)
    assert len(bodies(source)) == 2
    file.write_bytes(b"one\n")
    with pytest.raises(SourceError, match="shortened or replaced"):
        source.read(1, 0.0)
    with pytest.raises(SourceError, match="4 bytes, 8 of which were read"):
        opened(file, {"file:events.ndjson": 8})


def test_a_file_that_was_rewritten(file):
    append(file, b"one", b"two")
    source = opened(file)
    assert len(bodies(source)) == 2
    file.write_bytes(b"another story\n")
    with pytest.raises(SourceError, match="rewritten"):
        source.read(1, 0.0)
    with pytest.raises(SourceError, match="rewritten"):
        opened(file, {"file:events.ndjson": 8})


def test_a_file_that_was_replaced(file):
    append(file, b"one")
    source = opened(file)
    assert len(bodies(source)) == 1
    other = file.with_name("other")
    other.write_bytes(b"one\ntwo\n")
    other.replace(file)
    with pytest.raises(SourceError, match="replaced by another file"):
        source.read(1, 0.0)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(SourceError, match="no such file"):
        opened(tmp_path / "nothing")


def test_a_file_that_is_deleted(file):
    append(file, b"one")
    source = opened(file)
    file.unlink()
    with pytest.raises(SourceError, match="deleted before its end"):
        source.read(1, 0.0)


def test_files_of_a_folder_come_and_go(tmp_path):
    a, b = tmp_path / "a.ndjson", tmp_path / "b.ndjson"
    append(a, b"1")
    (tmp_path / "notes.txt").write_text("no\n")
    (tmp_path / "folder.ndjson").mkdir()
    source = opened(tmp_path)
    assert bodies(source) == [b"1"]
    append(b, b"2")
    assert bodies(source) == [b"2"]
    a.unlink()
    assert bodies(source) == []
    append(b, b"3")
    assert [(message.stream, message.body) for message in source.read(9, 0.0)] == [("file:b.ndjson", b"3")]
    append(b, b"4")
    b.unlink()
    with pytest.raises(SourceError, match="deleted before its end"):
        source.read(1, 0.0)
    assert bodies(opened(tmp_path, {"file:a.ndjson": 2, "file:b.ndjson": 6})) == []


def test_every_file_of_a_folder_has_its_turn(tmp_path):
    for name in "abc":
        append(tmp_path / f"{name}.ndjson", *[b"x"] * 10)
    source = opened(tmp_path)
    streams = [source.read(2, 0.0)[0].stream for _ in range(3)]
    assert len(set(streams)) == 3


def test_the_pattern_is_of_one_folder():
    with pytest.raises(OptionError, match="pattern is"):
        FileSettings(path=".", pattern="../x")


class Growing(RuleBasedStateMachine):
    """Any appends, reads and reopenings: every whole line once, in order."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "x.ndjson"
        self.path.touch()
        self.written = b""
        self.seen, self.cursor = [], {}
        self.source = opened(self.path)

    @rule(data=st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b" ", "ø".encode()]), max_size=12))
    def append(self, data):
        with self.path.open("ab") as file:
            file.write(b"".join(data))
        self.written += b"".join(data)

    @rule(limit=st.integers(1, 4))
    def read(self, limit):
        found = self.source.read(limit, 0.0)
        assert len(found) <= limit
        self.seen += [message.body for message in found]
        self.cursor |= {message.stream: message.offset for message in found}

    @rule()
    def reopen(self):
        self.source.close()
        self.source = opened(self.path, self.cursor)

    @invariant()
    def nothing_is_invented(self):
        assert self.seen == self.whole()[: len(self.seen)]

    def whole(self):
        lines = self.written.split(b"\n")[:-1]
        return [line.rstrip(b"\r") for line in lines if line.strip()]

    def teardown(self):
        try:
            self.seen += bodies(self.source)
            assert self.seen == self.whole()
        finally:
            self.source.close()
            self.folder.cleanup()


TestGrowing = Growing.TestCase
TestGrowing.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
