"""Damage is detected: the check in its quick size, and the bugs it must notice."""

import shutil

import pytest

from dygcn.engine.models import folder as folders
from dygcn.live.durable.opening import open as open_folder
from dygcn.live.durable.storage import dead_letters
from dygcn.live.durable.storage.sqlite_file import Watermark
from dygcn_lab.soak.promises import damage as check
from dygcn_lab.testbed.seeding import seeded


@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [
        (folders.FileEntry, "__eq__", lambda self, other: True),
        (Watermark, "read", lambda self: None),
        (dead_letters, "letter_sum", lambda letter: b""),
    ],
    ids=["files are not compared", "the mark is not read", "letters are not compared"],
)
def test_other_bugs_would_be_noticed(owner, name, wrong):
    with seeded(owner, name, wrong):
        assert any(check.damage(150, seed).bad for seed in range(9))


def test_a_folder_has_everything_in_it(tmp_path):
    live = check.make_folder(tmp_path / "x")
    assert len(check.letters(live)) == 3
    assert set(live.streams) == {"http:ann", "kafka:clicks/0"}
    before = live.digest()
    copy = shutil.copytree(live._folder, tmp_path / "copy", ignore=check._LEAVE_OUT)
    live._let_go()
    again = open_folder(copy)
    whole = check.look_at(again)
    assert (whole.digest, len(whole.letters)) == (before, 3)
    assert whole.next_digest != before
    again._let_go()
    last = open_folder(copy)
    assert (last.digest(), len(check.letters(last))) == (whole.next_digest, 4)
    assert not whole.is_in(last)
    last._let_go()


def test_what_is_whole_is_not_refused(tmp_path):
    live = check.make_folder(tmp_path / "x")
    live.close()
    assert not check.is_refused(live._folder)
    (live._folder / "model.safetensors").write_bytes(b"")
    assert check.is_refused(live._folder)
