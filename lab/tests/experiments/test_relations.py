"""The experiment about weights of relations, in small."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dygcn_lab.experiments import relations


def test_all_models_are_asked_the_same_and_the_result_is_whole(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    group = random.integers(0, 3, 60)
    ends = random.integers(0, 60, (4000, 2))
    ends = ends[(group[ends[:, 0]] == group[ends[:, 1]]) & (ends[:, 0] != ends[:, 1])][:600]
    rating = random.choice([-1, 1, 2], len(ends))
    (tmp_path / "bitcoin-otc").mkdir()
    columns = {"src": ends[:, 0], "dst": ends[:, 1], "t": np.arange(len(ends)), "rating": rating}
    pq.write_table(pa.table(columns), tmp_path / "bitcoin-otc" / "edges.parquet")
    for name, value in {"SEEDS": range(2), "DIM": 8, "RESAMPLES": 20}.items():
        monkeypatch.setattr(relations, name, value)
    found = relations.run("bitcoin-otc", tmp_path)
    assert found["relations"] == 2
    assert set(found["auc"]["all links, cosine"]) == set(relations.WAYS)
    assert all(0.5 < way["mean"] <= 1 for way in found["auc"]["all links, cosine"].values())
    assert len(found["chosen"]) == 2
    training, links, others, _ = relations.ask(relations.read("bitcoin-otc", tmp_path), 0)
    before = {
        frozenset(pair) for pair in zip(training["src"].tolist(), training["dst"].tolist(), strict=True)
    }
    for pairs in (links, others):
        assert before.isdisjoint(map(frozenset, pairs.tolist()))
