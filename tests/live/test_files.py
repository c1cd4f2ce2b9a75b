"""Damaged and hostile folders: a named error, never a wrong vector, never code."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.numpy import load_file

import dygcn
from dygcn.engine.models import folder as folders
from dygcn.engine.models.links import PAST, TRAITS, count_products
from dygcn.engine.training import Recipe
from dygcn.errors import DamagedFolder, FolderError, MissingFolder, UnsupportedFolder
from dygcn_lab.testbed.graphs import random_events

NAMES = ("manifest.json", "model.safetensors", "graph.safetensors")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    events = [(f"n{a}", f"n{b}", t, op, w) for a, b, t, op, w in random_events("hub", 0, nodes=30)]
    path = tmp_path_factory.mktemp("saved") / "x.dygcn"
    dygcn.fit(events, dim=8, width=32, memory=20.0, recipe=Recipe(rounds=5)).save(path)
    return path


@pytest.fixture
def live(original):
    return dygcn.load(original)


@pytest.fixture
def saved(original, tmp_path):
    return shutil.copytree(original, tmp_path / "x.dygcn")


def test_there_and_back(live, saved):
    again = dygcn.load(saved)
    assert again.digest() == live.digest()
    assert (again.version, again._state.graph.clock, len(again)) == (
        live.version,
        live._state.graph.clock,
        len(live),
    )
    np.testing.assert_array_equal(again.vectors(again.ids()), live.vectors(live.ids()))
    batch = [("n1", "n2", 99.0, -1, 1.0), ("new", "n3", 99.0, 1, 2.0)]
    live.update(batch)
    again.update(batch)
    assert again.digest() == live.digest()


def test_saving_over_a_folder_replaces_it_whole(live, saved):
    live.update(add=[("a", "b")], now=200.0)
    live.save(saved)
    assert dygcn.load(saved).digest() == live.digest()
    assert sorted(os.listdir(saved)) == sorted(NAMES)
    assert os.listdir(saved.parent) == [saved.name]


def test_a_foreign_folder_is_not_overwritten(live, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("miaow")
    with pytest.raises(FolderError, match="not a dygcn folder"):
        live.save(tmp_path / "photos")
    assert (tmp_path / "photos" / "cat.jpg").read_text() == "miaow"


def test_an_interrupted_save_leaves_the_old_folder(live, saved, monkeypatch):
    before = dygcn.load(saved).digest()
    live.update(add=[("a", "b")], now=200.0)
    monkeypatch.setattr(folders, "_describe", lambda path: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        live.save(saved)
    monkeypatch.undo()
    assert dygcn.load(saved).digest() == before
    assert os.listdir(saved.parent) == [saved.name]


def damage(saved, flips, seed=0):
    """Flip a bit or cut a file, somewhere; every one must be noticed."""
    random = np.random.default_rng(seed)
    contents = {name: (saved / name).read_bytes() for name in NAMES}
    for _ in range(flips):
        name = NAMES[int(random.integers(3))]
        whole = bytearray(contents[name])
        at = int(random.integers(len(whole)))
        if random.random() < 0.2:
            whole = whole[:at]
        else:
            whole[at] ^= 1 << int(random.integers(8))
        (saved / name).write_bytes(bytes(whole))
        with pytest.raises((DamagedFolder, UnsupportedFolder)):
            dygcn.load(saved)
        (saved / name).write_bytes(contents[name])
    dygcn.load(saved)


def test_every_flipped_bit_and_every_cut_is_noticed(saved):
    damage(saved, 400)


@pytest.mark.slow
def test_ten_thousand_flips_and_cuts_are_noticed(saved):
    damage(saved, 10_000, seed=1)


def test_without_checksums_the_flips_would_pass(saved, monkeypatch):
    """The mutant of the test above."""
    monkeypatch.setattr(folders, "_checksum", lambda manifest: manifest.checksum)
    monkeypatch.setattr(folders.FileEntry, "__eq__", lambda self, other: True)
    with pytest.raises(pytest.fail.Exception):
        damage(saved, 400)


@pytest.mark.parametrize("name", NAMES)
def test_missing_files(saved, name):
    (saved / name).unlink()
    with pytest.raises(DamagedFolder):
        dygcn.load(saved)


def test_no_folder_and_no_manifest(tmp_path):
    with pytest.raises(MissingFolder, match="does not exist; check the name"):
        dygcn.load(tmp_path / "nowhere")
    with pytest.raises(DamagedFolder, match=r"no manifest\.json"):
        dygcn.load(tmp_path)
    with pytest.raises(FolderError):
        dygcn.load("x" * 5000)


def reseal(saved, change_settings=None, change_tensors=None):
    """Write a folder whose checksums are right and whose content lies."""
    manifest = json.loads((saved / "manifest.json").read_text())
    settings = manifest["settings"]
    files = {name: load_file(saved / name) for name in NAMES[1:]}
    if change_settings:
        change_settings(settings)
    if change_tensors:
        change_tensors(files["model.safetensors"], files["graph.safetensors"])
    shutil.rmtree(saved)
    folders.write_folder(saved, settings, files)


def put(table, key, value):
    table[key] = value


LIES = {
    "edge to nowhere": lambda m, g: put(g, "a", np.full_like(g["a"], 10_000)),
    "negative end": lambda m, g: put(g, "b", np.full_like(g["b"], -5)),
    "edges twice": lambda m, g: [put(g, key, np.repeat(g[key], 2)) for key in ("a", "b", "weight")],
    "weight zero": lambda m, g: put(g, "weight", np.zeros_like(g["weight"])),
    "one end fewer": lambda m, g: put(g, "b", g["b"][:-1]),
    "no ends": lambda m, g: put(g, "b", g["b"][:0]),
    "nan in a matrix": lambda m, g: put(m, "W0", m["W0"] * np.nan),
    "ancient ghosts": lambda m, g: put(g, "ghost_t", g["ghost_t"] - 1e30),
    "weights of another length": lambda m, g: put(g, "weight", g["weight"][:-1]),
    "heavy weights": lambda m, g: put(g, "weight", g["weight"][:0]),
    "wrong type": lambda m, g: put(g, "a", g["a"].astype(np.int64)),
    "ids out of bounds": lambda m, g: put(g, "ids", g["ids"] + 1),
    "ids backwards": lambda m, g: put(g, "ids", g["ids"][::-1]),
    "ids not utf-8": lambda m, g: put(g, "ids_utf8", np.full_like(g["ids_utf8"], 0xFF)),
    "ids all the same": lambda m, g: put(g, "ids_utf8", np.full_like(g["ids_utf8"], 0x61)),
    "no ghosts": lambda m, g: put(g, "ghost_weight", g["ghost_weight"][:0]),
    "ghosts from the future": lambda m, g: put(g, "ghost_t", g["ghost_t"] + 1e9),
    "owners without features": lambda m, g: put(g, "own", np.ones_like(g["own"])),
    "extra tensor": lambda m, g: put(g, "more", np.zeros(3)),
    "missing tensor": lambda m, g: m.pop("W1"),
    "matrices of two shapes": lambda m, g: put(m, "W1", np.ones((2, 1), np.float32)),
    "wide matrices": lambda m, g: [put(m, k, np.zeros((1 << 15, 1), np.float32)) for k in ("W0", "W1", "W2")],
    "a matrix in the place of a number": lambda m, g: [
        put(m, k, np.ones((4, 4), np.float32)) for k in ("W0", "W1", "W2")
    ],
    "rows without ids": lambda m, g: put(m, "table_rows", np.repeat(m["table_rows"], 2, axis=0)),
    "rows of another width": lambda m, g: put(m, "table_rows", m["table_rows"][:, :-1]),
    "rows of another type": lambda m, g: put(m, "table_rows", m["table_rows"].astype(np.int16)),
    "a row beyond the grid": lambda m, g: put(m, "table_rows", np.full_like(m["table_rows"], -128)),
    "row ids not utf-8": lambda m, g: put(m, "table_ids_utf8", np.full_like(m["table_ids_utf8"], 0xFF)),
    "two rows of one id": lambda m, g: [
        put(m, "table_rows", np.concatenate((m["table_rows"], m["table_rows"][:1]))),
        put(
            m,
            "table_ids_utf8",
            np.concatenate((m["table_ids_utf8"], m["table_ids_utf8"][: m["table_ids"][1]])),
        ),
        put(m, "table_ids", np.append(m["table_ids"], m["table_ids"][-1] + m["table_ids"][1])),
    ],
    "two scales": lambda m, g: put(m, "scales", m["scales"] * np.r_[2.0, np.ones(len(m["scales"]) - 1)]),
    "scales": lambda m, g: put(m, "scales", m["scales"] * 3),
    "no contacts": lambda m, g: g.pop("contact"),
    "contacts of another length": lambda m, g: put(g, "contact", g["contact"][:-1]),
    "contacts from the future": lambda m, g: put(g, "contact", g["contact"] + 1e9),
    "nan contacts": lambda m, g: put(g, "contact", g["contact"] * np.nan),
    "no activity": lambda m, g: g.pop("activity"),
    "activity of another length": lambda m, g: put(g, "activity", g["activity"][:-1]),
    "activity of another type": lambda m, g: put(g, "activity", g["activity"].astype(np.float64)),
    "activity below zero": lambda m, g: put(g, "activity", g["activity"] - 1e6),
    "endless activity": lambda m, g: put(g, "activity", g["activity"] + np.float32(np.inf)),
    "no contacts of pairs": lambda m, g: g.pop("pair_t"),
    "contacts of other pairs": lambda m, g: [put(g, k, g[k][:-1]) for k in ("pair_t", "pair_count")],
    "contacts of pairs from the future": lambda m, g: put(g, "pair_t", g["pair_t"] + 1e9),
    "nan contacts of pairs": lambda m, g: put(g, "pair_t", g["pair_t"] * np.nan),
    "nan counts of pairs": lambda m, g: put(g, "pair_count", g["pair_count"] * np.nan),
    "counts of pairs below zero": lambda m, g: put(g, "pair_count", g["pair_count"] - 1e6),
    "nan scales": lambda m, g: put(m, "scales", m["scales"] * np.nan),
}


@pytest.mark.parametrize("lie", sorted(LIES))
def test_a_folder_that_contradicts_itself_is_refused(saved, lie):
    reseal(saved, change_tensors=LIES[lie])
    with pytest.raises(DamagedFolder):
        dygcn.load(saved)


PLAIN = 1 + count_products(2) + 2 * TRAITS
SIZES = {"negatives": PLAIN, "known": PLAIN + PAST, "dot": 2 + TRAITS}
SIZES |= dict.fromkeys(("low", "high"), PLAIN + PAST - 2)


def head_of(**wrong):
    """Return the settings of a score that fits, but for what is wrong."""
    return {name: [0.0] * size for name, size in SIZES.items()} | wrong


def test_a_score_that_fits_is_read(saved):
    reseal(saved, change_settings=lambda settings: put(settings, "links", {"new": head_of()}))
    assert dygcn.load(saved).model.links


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rule", "magic"),
        ("orders", 99),
        ("orders", 1),
        ("orders", "2"),
        ("ids", "float"),
        ("ids", "int64"),
        ("features", "pickle"),
        ("weight_grid", 0.3),
        ("seed", -1),
        ("weight_grid", 0.0),
        ("half_life", -1.0),
        ("half_life", None),
        ("clock", None),
        ("version", -1),
        ("nodes", 3),
        ("edges", 3),
        ("surprise", 1),
        ("unit", 0.0),
        ("unit", -2.0),
        ("unit", 1e-300),
        ("unit", None),
        ("links", {"old": head_of()}),
        ("links", {"new": head_of(known=None)}),
        ("links", {"new": head_of(dot=[1e300] * SIZES["dot"])}),
        ("links", {"new": head_of(low=[1.0] * SIZES["low"])}),
        *(("links", {"new": head_of(**{name: [0.0] * (size - 1)})}) for name, size in SIZES.items()),
    ],
)
def test_settings_that_lie_are_refused(saved, key, value):
    reseal(saved, change_settings=lambda settings: put(settings, key, value))
    with pytest.raises(DamagedFolder):
        dygcn.load(saved)


@pytest.mark.parametrize("number", [1, folders.FORMAT + 1], ids=["older", "newer"])
def test_another_format_is_said_to_be_one(saved, live, monkeypatch, number):
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(folders, "FORMAT", number)
        live.save(saved)
    said = f"has format {number}; this version of dygcn reads 3 and 4"
    with pytest.raises(UnsupportedFolder, match=said):
        dygcn.load(saved)


class Bomb:
    def __reduce__(self):
        return (os.mkdir, ("exploded",))


def hostile(saved, kind):
    graph = saved / "graph.safetensors"
    if kind == "pickle":
        for name in NAMES:
            (saved / name).write_bytes(pickle.dumps(Bomb()))
    elif kind == "pickle with right checksums":
        graph.write_bytes(pickle.dumps(Bomb()))
        reseal_raw(saved)
    elif kind == "huge header":
        graph.write_bytes((1 << 62).to_bytes(8, "little") + b"{}")
        reseal_raw(saved)
    elif kind == "deep json":
        (saved / "manifest.json").write_text("[" * 100_000)
    elif kind == "large manifest":
        (saved / "manifest.json").write_bytes(b" " * (2 << 20))
    elif kind == "escaping file name":
        manifest = json.loads((saved / "manifest.json").read_text())
        manifest["files"]["../../etc/passwd"] = manifest["files"].pop("graph.safetensors")
        (saved / "manifest.json").write_text(json.dumps(manifest))
        reseal_raw(saved, describe=False)
    elif kind == "link":
        graph.unlink()
        graph.symlink_to("/dev/zero")
    elif kind == "sparse giant":
        with graph.open("r+b") as stream:
            stream.truncate(1 << 40)


def reseal_raw(saved, describe=True):
    import msgspec  # noqa: PLC0415

    manifest = msgspec.json.decode((saved / "manifest.json").read_bytes(), type=folders.Manifest)
    if describe:
        manifest.files = {name: folders._describe(saved / name) for name in NAMES[1:]}
    manifest.checksum = folders._checksum(manifest)
    (saved / "manifest.json").write_bytes(folders._encode(manifest))


KINDS = [
    "pickle",
    "pickle with right checksums",
    "huge header",
    "deep json",
    "large manifest",
    "escaping file name",
    "link",
    "sparse giant",
]


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_folders_are_refused(saved, kind, tmp_path, monkeypatch):
    hostile(saved, kind)
    monkeypatch.chdir(tmp_path)
    begun = time.thread_time()
    with pytest.raises(FolderError):
        dygcn.load(saved)
    assert time.thread_time() - begun < 5
    assert not (tmp_path / "exploded").exists()


def test_hostile_folders_cost_little_memory(saved, tmp_path):
    """All of them in one fresh process, which must stay within 256 MB more than an honest load took."""
    copies = []
    for kind in KINDS:
        copy = tmp_path / kind.replace(" ", "_")
        shutil.copytree(saved, copy)
        hostile(copy, kind)
        copies.append(str(copy))
    script = (
        "import sys, resource, dygcn\n"
        "dygcn.load(sys.argv[1])\n"
        "base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for path in sys.argv[2:]:\n"
        "    try: dygcn.load(path)\n"
        "    except dygcn.errors.FolderError: continue\n"
        "    sys.exit(path + ' was loaded')\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base)\n"
    )
    run = subprocess.run([sys.executable, "-c", script, str(saved), *copies], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 256 << 10
