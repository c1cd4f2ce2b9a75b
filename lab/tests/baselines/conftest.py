"""The baselines need packages that the library does not."""

from importlib.util import find_spec

PACKAGES = ("gensim", "pycleora", "scipy", "torch", "torch_geometric")
collect_ignore_glob = [] if all(find_spec(name) for name in PACKAGES) else ["test_*.py"]
