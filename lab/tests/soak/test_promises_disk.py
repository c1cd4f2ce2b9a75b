"""A disk that keeps what was synced and may lose the rest: by hand, and with random calls."""

import tempfile
from pathlib import Path
from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dygcn_lab.soak.promises.disk import SECTOR, Disk, File, TraceError, Written, files_of, write_image
from dygcn_lab.soak.promises.disk_trace import Call

DRAWS = 60


def call(kind, path="", fd=-1, first=0, second=0, data=b""):
    return Call(kind, fd, first, second, path, data)


def disk_of(tmp_path, **files):
    folder = tmp_path / "begin"
    write_image(files, folder)
    return Disk(folder)


def play(disk, *calls):
    for one in calls:
        disk.apply(one)


def create(path, fd, inode=1):
    return call("open", path, fd, second=inode, data=b"\0")


def opened(path, fd, inode=1, emptied=False):
    return call("open", path, fd, first=int(emptied), second=inode, data=b"\1")


def write(fd, offset, data):
    return call("write", fd=fd, first=offset, data=data)


def sync(fd, worked=True):
    return call("sync", fd=fd, first=int(worked))


def images(disk, count=DRAWS):
    return [disk.after_loss(Random(i)) for i in range(count)]


# ---- contents ----------------------------------------------------------------------------------------------


def test_what_was_there_and_what_was_synced_stays(tmp_path):
    disk = disk_of(tmp_path, a=b"old")
    play(disk, opened("a", 3), write(3, 1, b"EW!"), sync(3))
    assert disk.now() == {"a": b"oEW!"}
    assert all(image == {"a": b"oEW!"} for image in images(disk))


def test_what_was_not_synced_may_be_there_or_not(tmp_path):
    disk = disk_of(tmp_path, a=b"old")
    play(disk, opened("a", 3), write(3, 0, b"new"))
    assert disk.now() == {"a": b"new"}
    assert {image["a"] for image in images(disk)} == {b"old", b"new"}


def test_writes_are_torn_and_reordered_at_sectors(tmp_path):
    disk = disk_of(tmp_path, a=bytes(2 * SECTOR))
    play(disk, opened("a", 3), write(3, 0, b"1" * 2 * SECTOR), write(3, SECTOR, b"2" * SECTOR))
    found = {(image["a"][:1], image["a"][-1:]) for image in images(disk, 300)}
    assert {(b"\0", b"\0"), (b"1", b"1"), (b"1", b"2"), (b"\0", b"2"), (b"1", b"\0")} <= found
    assert all(len(set(image["a"][:SECTOR])) == 1 for image in images(disk))


def test_a_hole_is_zeros(tmp_path):
    disk = disk_of(tmp_path, a=b"")
    play(disk, opened("a", 3), write(3, 0, b"x" * SECTOR), write(3, SECTOR, b"y" * SECTOR))
    found = {image["a"] for image in images(disk, 300)}
    assert bytes(SECTOR) + b"y" * SECTOR in found
    assert b"" in found


@pytest.mark.parametrize("how", ["truncate", "open"])
def test_a_file_that_is_cut_may_still_be_whole(tmp_path, how):
    disk = disk_of(tmp_path, a=b"old")
    if how == "truncate":
        play(disk, opened("a", 3), call("truncate", fd=3, first=1))
        expected = {b"old", b"o"}
    else:
        play(disk, opened("a", 3, emptied=True))
        expected = {b"old", b""}
    assert {image["a"] for image in images(disk)} == expected
    play(disk, sync(3))
    assert len({image["a"] for image in images(disk)}) == 1


def test_a_sync_settles_one_file_and_only_what_came_before(tmp_path):
    disk = disk_of(tmp_path, a=b"old", b=b"old")
    play(disk, opened("a", 3, 1), opened("b", 4, 2), write(3, 0, b"new"), write(4, 0, b"new"), sync(3))
    play(disk, write(3, 0, b"two"))
    found = images(disk)
    assert {image["a"] for image in found} == {b"new", b"two"}
    assert {image["b"] for image in found} == {b"old", b"new"}


def test_what_a_failed_sync_left_is_not_settled_by_the_next_one(tmp_path):
    disk = disk_of(tmp_path, a=b"old")
    play(disk, opened("a", 3), write(3, 0, b"new"), sync(3, worked=False), sync(3))
    assert {image["a"] for image in images(disk)} == {b"old", b"new"}
    play(disk, write(3, 0, b"new"), sync(3))  # written anew, it is
    assert {image["a"] for image in images(disk)} == {b"new"}
    assert disk.now() == {"a": b"new"}


def test_sectors_of_a_write_begin_where_those_of_the_file_do():
    pieces = Written(SECTOR - 10, b"x" * (SECTOR + 20)).sectors()
    assert [(piece.offset, len(piece.data)) for piece in pieces] == [
        (SECTOR - 10, 10),
        (SECTOR, SECTOR),
        (2 * SECTOR, 10),
    ]
    assert Written(5, None).sectors()[0].offset == 5


# ---- names -------------------------------------------------------------------------------------------------


def test_a_name_needs_a_sync_of_its_folder(tmp_path):
    disk = disk_of(tmp_path)
    play(disk, create("a", 3), write(3, 0, b"new"), sync(3))
    assert {frozenset(image.items()) for image in images(disk)} == {frozenset(), frozenset({("a", b"new")})}
    play(disk, opened("", 4, 9), sync(4))
    assert all(image == {"a": b"new"} for image in images(disk))


def test_a_file_is_renamed_or_not_but_never_gone_or_doubled(tmp_path):
    disk = disk_of(tmp_path, old=b"x")
    play(disk, call("rename", "old", data=b"new"))
    assert {tuple(image) for image in images(disk)} == {("old",), ("new",)}
    play(disk, opened("", 4, 9), sync(4))
    assert {tuple(image) for image in images(disk)} == {("new",)}


def test_a_file_takes_the_place_of_another_at_once(tmp_path):
    disk = disk_of(tmp_path, a=b"old")
    play(disk, create(".a", 3), write(3, 0, b"new"), sync(3), call("rename", ".a", data=b"a"))
    assert {image["a"] for image in images(disk)} == {b"old", b"new"}


def test_a_removal_may_not_have_happened(tmp_path):
    disk = disk_of(tmp_path, a=b"x")
    play(disk, call("unlink", "a"))
    assert {tuple(image) for image in images(disk)} == {(), ("a",)}
    assert disk.now() == {}


def test_names_may_change_out_of_order_but_not_against_each_other(tmp_path):
    disk = disk_of(tmp_path)
    play(disk, create("a", 3, 1), create("b", 4, 2), call("unlink", "a"))
    found = {tuple(image) for image in images(disk, 300)}
    assert found == {(), ("a",), ("b",), ("a", "b")}


def test_a_folder_in_a_folder(tmp_path):
    disk = disk_of(tmp_path)
    play(disk, call("mkdir", "s"), create("s/a", 3), write(3, 0, b"x"), sync(3), opened("s", 4, 5), sync(4))
    assert {tuple(image) for image in images(disk)} == {(), ("s/", "s/a")}  # the name of s itself is loose
    play(disk, call("rename", "s", data=b"t"), opened("", 5, 9), sync(5))
    assert {tuple(image) for image in images(disk)} == {("t/", "t/a")}
    play(disk, call("unlink", "t/a"), call("rmdir", "t"))
    assert disk.now() == {}


def test_a_file_that_moves_between_folders_is_in_one_of_them(tmp_path):
    disk = disk_of(tmp_path, a=b"x")
    play(disk, call("mkdir", "s"), call("rename", "a", data=b"s/a"), opened("", 4, 9), sync(4))
    assert {tuple(image) for image in images(disk)} == {("s/", "s/a")}


def test_a_renaming_that_went_past_the_record_is_noticed_when_the_file_is_opened(tmp_path):
    disk = disk_of(tmp_path)
    play(disk, create(".tmp", 3, inode=77), write(3, 0, b"x"), call("close", fd=3))
    play(disk, opened("a", 4, inode=77))
    assert disk.now() == {"a": b"x"}


def test_a_renaming_that_went_past_the_record_is_noticed_when_the_file_goes_on(tmp_path):
    disk = disk_of(tmp_path)
    play(disk, create(".tmp", 3, inode=77), write(3, 0, b"x"), call("close", fd=3))
    play(disk, call("rename", "a", second=77, data=b"b"))
    assert disk.now() == {"b": b"x"}
    play(disk, create(".tmp", 3, inode=78), call("close", fd=3), call("unlink", "c", second=78))
    assert disk.now() == {"b": b"x"}
    with pytest.raises(TraceError):
        disk.apply(call("unlink", "c", second=78))


@pytest.mark.parametrize(
    "wrong",
    [
        write(9, 0, b"x"),
        opened("nowhere", 3, inode=5),
        call("unlink", "nowhere"),
        call("rename", "nowhere", data=b"a"),
        call("mkdir", "nowhere/a"),
        call("rename", "a", first=2, data=b"b"),
    ],
    ids=lambda one: one.kind,
)
def test_a_record_that_cannot_be_true_is_refused(tmp_path, wrong):
    with pytest.raises(TraceError):
        disk_of(tmp_path, a=b"").apply(wrong)


def test_a_new_process_has_no_open_files(tmp_path):
    disk = disk_of(tmp_path, a=b"")
    play(disk, opened("a", 3), call("process"))
    with pytest.raises(TraceError, match="which is not open"):
        disk.apply(write(3, 0, b"x"))


def test_what_sqlite_maps_is_in_no_image(tmp_path):
    disk = disk_of(tmp_path, **{"log-shm": b"x", "log": b"y"})
    assert disk.now() == {"log": b"y"}
    assert files_of(tmp_path / "begin") == {"log": b"y"}


def test_an_image_is_written_as_it_is(tmp_path):
    files = {"a": b"x", "s/": b"", "s/b": b"y", "t/": b""}
    write_image(files, tmp_path / "image")
    assert files_of(tmp_path / "image") == files


# ---- anything ----------------------------------------------------------------------------------------------


@given(
    writes=st.lists(st.tuples(st.integers(0, 1500), st.binary(min_size=1, max_size=900)), max_size=6),
    synced=st.integers(0, 6),
    seed=st.integers(0, 1000),
)
def test_every_byte_is_one_that_was_there_or_was_written(writes, synced, seed):
    file, before = File(bytearray(b"." * 1000)), [b".", b"\0"]
    for i, (offset, data) in enumerate(writes):
        file.since.append(Written(offset, data))
        if i + 1 == synced:
            file.sync(worked=True)
    certain, image = File(bytearray(b"." * 1000)), file.after_loss(Random(seed))
    for offset, data in writes[:synced] if synced <= len(writes) else ():
        Written(offset, data).onto(certain.content)
    loose = writes[synced:] if synced <= len(writes) and synced else writes
    reached = {i for offset, data in loose for i in range(offset, offset + len(data))}
    assert len(image) >= len(certain.content)
    for i, byte in enumerate(image):
        if i not in reached and i < len(certain.content):
            assert byte == certain.content[i]
        elif i not in reached:
            assert bytes([byte]) in before


class DiskMachine(RuleBasedStateMachine):
    """Random calls against a dict; after a sync of everything, nothing can be lost."""

    def __init__(self):
        super().__init__()
        with tempfile.TemporaryDirectory() as workdir:
            self.disk = Disk(Path(workdir))
        self.files = {}
        self.inodes = 0
        self.draws = 0

    @rule(name=st.sampled_from("abc"), data=st.binary(min_size=1, max_size=1200), offset=st.integers(0, 600))
    def write(self, name, data, offset):
        if name in self.files:
            play(self.disk, opened(name, 3, self.files[name][1]))
        else:
            self.inodes += 1
            self.files[name] = (bytearray(), self.inodes)
            play(self.disk, create(name, 3, self.inodes))
        Written(offset, data).onto(self.files[name][0])
        play(self.disk, write(3, offset, data), call("close", fd=3))

    @rule(name=st.sampled_from("abc"), worked=st.booleans())
    def sync(self, name, worked):
        if name in self.files:
            play(self.disk, opened(name, 3, self.files[name][1]), sync(3, worked), call("close", fd=3))

    @rule(old=st.sampled_from("abc"), new=st.sampled_from("abc"))
    def rename(self, old, new):
        if old in self.files and old != new:
            self.files[new] = self.files.pop(old)
            play(self.disk, call("rename", old, data=new.encode()))

    @rule(name=st.sampled_from("abc"))
    def unlink(self, name):
        if self.files.pop(name, None):
            play(self.disk, call("unlink", name))

    @rule()
    def sync_everything(self):
        for name, (content, inode) in self.files.items():
            play(self.disk, opened(name, 3, inode), write(3, 0, bytes(content)), sync(3), call("close", fd=3))
        play(self.disk, opened("", 3, 10**6), sync(3), call("close", fd=3))
        for seed in range(5):
            assert self.disk.after_loss(Random(seed)) == self.seen()

    @invariant()
    def processes_see_what_was_written(self):
        assert self.disk.now() == self.seen()

    @invariant()
    def an_image_has_no_name_that_never_was(self):
        self.draws += 1
        assert set(self.disk.after_loss(Random(self.draws))) <= set("abc")

    def seen(self):
        return {name: bytes(content) for name, (content, _) in self.files.items()}


TestDiskMachine = DiskMachine.TestCase
TestDiskMachine.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
