"""No code from files: hostile files are refused, and no code that would run one gets into the library."""

import os

import pytest

import dygcn
from dygcn.engine.models import folder as folders
from dygcn_lab.soak.promises import hostile as check
from dygcn_lab.soak.promises.hostile_files import EXPLODED, READERS, cases, good_things
from dygcn_lab.testbed.unsafe_code import unsafe_code


def test_every_way_in_has_its_traps(tmp_path):
    names = " ".join(cases())
    for word in (
        "manifest",
        "safetensors",
        "log",
        "journal",
        "mark",
        "lock",
        "parquet",
        "csv",
        "ndjson",
        "arrow",
    ):
        assert word in names
    assert {"pipe", "pickle", "terabyte", "endless"} <= set(names.split())


@pytest.mark.parametrize("name", sorted(good_things()))
def test_what_is_good_is_taken(name, tmp_path):
    trap = good_things()[name](tmp_path / "case")
    found = READERS[trap.reader](trap.path)
    if isinstance(found, dygcn.DurableEmbedding):
        found.close()


def test_pickles_are_real(tmp_path, monkeypatch):
    """Whoever unpickled one of them would leave a folder behind."""
    pickle = pytest.importorskip("pickle")
    trap = cases()["manifest: a pickle"](tmp_path / "case")
    monkeypatch.chdir(tmp_path)
    pickle.loads((trap.path / "manifest.json").read_bytes())
    assert (tmp_path / EXPLODED).is_dir()


def test_sealed_files_have_the_right_checksums(tmp_path):
    """So that it is not the checksum that stops them."""
    trap = cases()["model.safetensors: a header of 2^63 bytes"](tmp_path / "case")
    manifest = folders.read_manifest(trap.path)
    for name, entry in manifest.files.items():
        assert folders._describe(trap.path / name) == entry


def test_a_process_that_dies_is_noticed_and_replaced(tmp_path):
    reader, name = check.Reader(tmp_path), "good: csv"
    try:
        assert reader.read(name, good_things()[name]).how == "taken"
        os.kill(reader._process.pid, 9)
        reader._process.wait()
        outcome = reader.read(name, good_things()[name])
        assert outcome.how == "the process ended with -9"
        assert not outcome.good
        assert reader.read(name, good_things()[name]).how == "taken"
    finally:
        reader.stop()


@pytest.mark.parametrize(
    ("how", "seconds", "grown", "good"),
    [
        ("refused", 0.1, 0, True),
        ("refused", 2.1, 0, False),
        ("refused", 0.1, 257 << 20, False),
        ("taken", 0.1, 0, False),
        ("ValueError", 0.1, 0, False),
    ],
)
def test_what_is_good_enough(how, seconds, grown, good):
    assert check.Outcome("x", how, "", seconds, grown).good is good


# ---- the library's own code --------------------------------------------------------------------------


def test_no_source_runs_what_it_reads():
    assert check.unsafe_sources() == []


UNSAFE = {
    "import pickle": "pickle",
    "import pickle as p": "pickle",
    "import os, dill": "dill",
    "from pickle import loads": "pickle",
    "from joblib.externals import x": "joblib",
    "def f():\n    import cloudpickle": "cloudpickle",
    "import importlib\nimportlib.import_module('pickle')": "pickle",
    "import shelve": "shelve",
    "import marshal": "marshal",
    "np.load(x, allow_pickle=True)": "allow_pickle",
    "np.load(x, allow_pickle=flag)": "allow_pickle",
    "np.lib.format.read_array(f, allow_pickle=1)": "allow_pickle",
    "torch.load(x)": "torch.load",
    "torch.load(x, weights_only=True)": "torch.load",
    "from torch import load": "load",
    "torch.jit.load(x)": "torch.jit.load",
    "yaml.load(x)": "yaml.load",
    "yaml.unsafe_load(x)": "yaml.unsafe_load",
    "from yaml import full_load": "full_load",
    "eval(x)": "eval",
    "exec(x)": "exec",
    "__import__(x)": "__import__",
    "pd.read_pickle(x)": "read_pickle",
    "frame.read_pickle(x)": "read_pickle",
    "db.enable_load_extension(True)": "enable_load_extension",
    "subprocess.run(x, shell=True)": "shell",
    "os.system(x)": "os.system",
    "class A:\n    def f(self):\n        return [eval(x) for x in y]": "eval",
}


@pytest.mark.parametrize("source", sorted(UNSAFE))
def test_unsafe_code_is_found(source):
    found = unsafe_code(source)
    assert len(found) == 1
    assert UNSAFE[source] in found[0]
    assert found[0].startswith("line ")


@pytest.mark.parametrize(
    "source",
    [
        "x = 'import pickle; eval(x); allow_pickle=True'",
        "'''np.load(x, allow_pickle=True)'''",
        "np.load(x)",
        "np.load(x, allow_pickle=False)",
        "model.eval()",
        "re.compile(x)",
        "compile(x, y, 'exec')",
        "yaml.safe_load(x)",
        "json.load(x)",
        "safetensors.numpy.load_file(x)",
        "subprocess.run(x, shell=False)",
        "importlib.import_module(name)",
        "importlib.import_module('json')",
        "from . import pickle_of_nothing",
        "from .shelve import x",
    ],
)
def test_safe_code_is_left_alone(source):
    assert unsafe_code(source) == []


def test_the_line_is_told():
    assert unsafe_code("x = 1\n\ny = eval(x)") == ["line 3: eval runs what it reads"]
