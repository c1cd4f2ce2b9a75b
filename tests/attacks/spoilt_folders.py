"""Folders that somebody spoilt, at random: each is refused by name, or holds what it held, or is sound.

`python -m tests.attacks.spoilt_folders SEED COUNT` is a process of its own, with little memory to be had: one
that dies, hangs or wants too much is noticed.
"""

import collections
import json
import os
import random
import resource
import shutil
import struct
import sys
import warnings

import msgspec

import dygcn
from dygcn.engine.models import folder as folders
from dygcn.errors import DygcnError
from dygcn_lab.testbed.seeding import small_model
from tests.live.crashing import many_folders

_MEMORY = 4 << 30  # bytes of addresses; libraries and threads take half of it
_ODD = [
    None,
    -1,
    0,
    1,
    2**31,
    2**63,
    2**64,
    10**30,
    1e308,
    5e-324,
    "",
    "../../x",
    [],
    {},
    True,
    [[]],
    "a" * 999,
]
_ELSEWHERE = ("/etc/passwd", "/dev/zero", "/proc/self/mem", "/dev/urandom", "/nowhere")


class Spoiler:
    """A saved folder and a durable one, and copies of them that are spoilt.

    Attributes
    ----------
    found
        How often each way to spoil a folder had each end.
    """

    def __init__(self, workdir, seed):
        self.workdir, self.random = workdir, random.Random(seed)
        self.found = collections.Counter()
        workdir.mkdir()
        live = dygcn.start(small_model(half_life=3.0))
        live.update([(a, a * a % 31, 1.0, 1) for a in range(30)])
        live.update([(2, 4, 2.0, -1), (3, 9, 2.0, -1)])
        live.save(workdir / "load")
        with dygcn.open(workdir / "open", live, snapshot_every=5) as durable:
            for step in range(8):
                durable.update([(step, step + 40, 3.0 + step, 1)])
            self.digests = {"load": live.digest(), "open": durable.digest()}
        self.ways = (self.flip, self.cut, self.lengthen, self.swap, self.link, self.header, self.settings)

    def run(self, count):
        """Spoil so many copies, and read each."""
        for _ in range(count):
            self.spoil()

    def spoil(self):
        """Spoil a copy of one of the folders, and read it."""
        how, way = self.random.choice(["load", "load", "open"]), self.random.choice(self.ways)
        copy = shutil.copytree(self.workdir / how, self.workdir / "spoilt", symlinks=True)
        try:
            file = self.random.choice(
                [one for one in sorted(copy.rglob("*")) if one.is_file() and one.stat().st_size]
            )
            what = f"{how}, {way.__name__}, {file.relative_to(copy)}: {way(file)}"
            self.found[
                way.__name__, self.read(copy, how, what, sealed=way in (self.header, self.settings))
            ] += 1
        finally:
            shutil.rmtree(copy)

    def read(self, folder, how, what, sealed):
        """Read a folder; return how that ended."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                live = dygcn.load(folder) if how == "load" else dygcn.open(folder)
        except DygcnError:
            return "refused"
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__} {error}") from error
        digest, sound = live.digest(), live.recompute().digest()
        if how == "open":
            live._let_go()
        assert digest == sound, f"{what}: it is not sound"
        if sealed:  # whoever can make checksums may write what he likes
            return "sound"
        assert digest == self.digests[how], f"{what}: another state, and nobody noticed"
        return "as it was"

    # ---- ways to spoil a file: each returns what it did --------------------------------------------------

    def flip(self, file):
        content = bytearray(file.read_bytes())
        at = [self.random.randrange(len(content)) for _ in range(self.random.choice([1, 2, 8]))]
        for one in at:
            content[one] = self.random.randrange(256)
        file.write_bytes(content)
        return f"bytes {at}"

    def cut(self, file):
        size = self.random.randrange(file.stat().st_size)
        os.truncate(file, size)
        return f"at {size}"

    def lengthen(self, file):
        more = self.random.choice([1, 100, 5_000])
        with file.open("ab") as stream:
            stream.write(self.random.randbytes(more))
        return f"by {more}"

    def swap(self, file):
        other = self.random.choice([one for one in sorted(self.workdir.rglob("*")) if one.is_file()])
        file.write_bytes(other.read_bytes())
        return f"for {other.relative_to(self.workdir)}"

    def link(self, file):
        target = self.random.choice(_ELSEWHERE)
        file.unlink()
        file.symlink_to(target)
        return f"to {target}"

    def header(self, file):
        """Lie in the header of a file of tensors, and make the checksums right."""
        file = self.random.choice(sorted(file.parent.glob("*.safetensors")))
        content = file.read_bytes()
        size = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8 : 8 + size])
        what = self.lie(header)
        text = json.dumps(header).encode()
        told = self.random.choice([len(text), len(text), len(text), 2**63, 2**40])
        file.write_bytes(struct.pack("<Q", told) + text + content[8 + size :])
        seal(file.parent)
        return f"{what}, {told} bytes"

    def settings(self, file):
        """Lie in the settings of a manifest, and make the checksums right."""
        manifest = file.parent / folders.MANIFEST
        content = json.loads(manifest.read_bytes())
        what = self.lie(content["settings"])
        manifest.write_text(json.dumps(content))
        seal(manifest.parent)
        return what

    def lie(self, value):
        """Put something odd in the place of a part; return which."""
        key = self.random.choice(list(value) if isinstance(value, dict) else range(len(value)))
        inner = value[key]
        if isinstance(inner, dict | list) and inner and self.random.random() < 0.7:
            return f"{key}.{self.lie(inner)}"
        value[key] = self.random.choice(_ODD)
        return f"{key} is {str(value[key])[:40]!r}"


def seal(folder):
    """Make the checksums of a folder right, as whoever sends one can."""
    manifest = msgspec.json.decode((folder / folders.MANIFEST).read_bytes(), type=folders.Manifest)
    manifest.files = {name: folders._describe(folder / name) for name in manifest.files}
    manifest.checksum = folders._checksum(manifest)
    (folder / folders.MANIFEST).write_bytes(folders._encode(manifest))


def main(seed, count):
    """Spoil so many folders; print how that ended."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    with many_folders() as new_folder:
        spoiler = Spoiler(new_folder(), seed)
        spoiler.run(count)
    rows = [[*key, number] for key, number in sorted(spoiler.found.items())]
    sys.stdout.write(json.dumps(rows) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
