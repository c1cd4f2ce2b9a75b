"""Files of events that would take all memory, or end the process, are refused before they are read."""

import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dygcn.engine.events import files, python_ids, read_events
from dygcn.errors import EventError


def refused(path, match):
    begun = time.thread_time()
    with pytest.raises(EventError, match=match):
        read_events(str(path))
    assert time.thread_time() - begun < 5


# ---- Parquet -----------------------------------------------------------------------------------------


def test_many_rows_in_a_few_bytes(tmp_path):
    part = pa.table({"src": np.zeros(1 << 20, np.int64), "dst": np.ones(1 << 20, np.int64)})
    with pq.ParquetWriter(tmp_path / "x.parquet", part.schema) as writer:
        for _ in range(20):
            writer.write_table(part)
    assert (tmp_path / "x.parquet").stat().st_size < 200_000
    refused(tmp_path / "x.parquet", "as no file of events does")


def test_many_bytes_in_a_few(tmp_path):
    part = pa.table({"src": np.zeros(1 << 21, np.int64), "dst": np.zeros(1 << 21, np.int64)})
    pq.write_table(part, tmp_path / "x.parquet", compression="zstd", use_dictionary=False)
    refused(tmp_path / "x.parquet", "as no file of events does")


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("repeated", [1, 50])
def test_honest_files_are_read(tmp_path, compression, repeated):
    random = np.random.default_rng(0)
    count = 60_000
    ends = random.integers(0, 200, (count // repeated, 2)).repeat(repeated, 0)
    table = pa.table({"src": ends[:, 0], "dst": ends[:, 1], "op": np.ones(len(ends), np.int8)})
    pq.write_table(table, tmp_path / "x.parquet", compression=compression)
    assert len(read_events(tmp_path / "x.parquet")) == len(ends)


def test_one_long_word_often(tmp_path):
    word = pa.DictionaryArray.from_arrays(np.zeros(300, np.int32), pa.array(["x" * (1 << 20)]))
    pq.write_table(
        pa.table({"src": word, "dst": word}), tmp_path / "x.parquet", dictionary_pagesize_limit=1 << 30
    )
    refused(tmp_path / "x.parquet", "row 0: column 'src' holds an id of 1048576 bytes")


def test_a_long_word_that_nobody_uses(tmp_path):
    words = pa.DictionaryArray.from_arrays(pa.array([1, 2, 1], pa.int32()), pa.array(["x" * 1000, "a", "b"]))
    batch = read_events(pa.table({"src": words, "dst": words}))
    assert python_ids(batch.src).tolist() == ["a", "b", "a"]
    bad = pa.DictionaryArray.from_arrays(pa.array([1, 2, 0], pa.int32()), pa.array(["x" * 1000, "a", "b"]))
    with pytest.raises(EventError, match="row 2: column 'dst' holds an id of 1000 bytes"):
        read_events(pa.table({"src": words, "dst": bad}))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.text("abcü", max_size=3), st.text("abcü", max_size=3)), min_size=1, max_size=40))
def test_words_are_the_same_through_a_file(tmp_path_factory, pairs):
    """In several groups, each with words of its own."""
    path = tmp_path_factory.mktemp("words") / "x.parquet"
    pq.write_table(
        pa.table(dict(zip(("src", "dst"), zip(*pairs, strict=True), strict=True))), path, row_group_size=3
    )
    batch = read_events(path)
    found = zip(python_ids(batch.src).tolist(), python_ids(batch.dst).tolist(), strict=True)
    assert list(found) == pairs


def test_an_empty_cell_is_told(tmp_path):
    pq.write_table(pa.table({"src": ["a", None], "dst": ["b", "c"]}), tmp_path / "x.parquet")
    refused(tmp_path / "x.parquet", "row 1: column 'src' has an empty cell")


# ---- NDJSON ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("bracket", ["[]", "{}"])
def test_deep_json(tmp_path, bracket, closed):
    deep = bracket[0] * 50_000 if bracket == "[]" else '{"a":' * 50_000
    end = "1" + bracket[1] * 50_000 + "}\n" if closed else ""
    (tmp_path / "x.ndjson").write_text('{"src":1,"dst":2}\n{"src":' + deep + end)
    refused(tmp_path / "x.ndjson", "levels deep")


def test_deep_only_over_several_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_BLOCK", 128)
    (tmp_path / "x.ndjson").write_text('{"a":1}\n' + "x" * 100 + '\n{"src":' + "[" * 100)
    refused(tmp_path / "x.ndjson", "levels deep")


def test_depth_ends_with_its_line(tmp_path):
    (tmp_path / "x.ndjson").write_text("[\n" * 1000)
    refused(tmp_path / "x.ndjson", "cannot read")


def test_a_line_without_an_end(tmp_path):
    with (tmp_path / "x.ndjson").open("wb") as file:
        file.write(b'{"src":1,"dst":2}\n')
        file.truncate(1 << 40)
    refused(tmp_path / "x.ndjson", "a line of")


def test_brackets_in_words_and_lists_are_read(tmp_path):
    lines = ['{"src":"[a]","dst":"}b{","tags":["x","[[y"]}'] * 5000
    (tmp_path / "x.ndjson").write_text("\n".join(lines))
    batch = read_events(tmp_path / "x.ndjson")
    assert (len(batch), python_ids(batch.src)[0], python_ids(batch.dst)[0]) == (5000, "[a]", "}b{")


def test_closing_brackets_do_not_hide_depth(tmp_path):
    """A line that closes more than it opens does not count for the next one."""
    (tmp_path / "x.ndjson").write_text('{"src":"' + "]" * 5000 + '","dst":"a"}\n{"src":' + "[" * 100)
    refused(tmp_path / "x.ndjson", "levels deep")


def test_a_failure_without_words_is_told(tmp_path, monkeypatch):
    (tmp_path / "x.csv").write_text("src,dst\n1,2\n")

    def fail(*_):
        raise OSError

    monkeypatch.setattr(files, "_read_csv", fail)
    refused(tmp_path / "x.csv", "OSError")


@pytest.mark.parametrize("header", ["src,dst,src", "src,dst,dst", "src,dst,weight,weight"])
def test_two_columns_of_one_name_are_refused(tmp_path, header):
    (tmp_path / "x.csv").write_text(f"{header}\n{','.join('1' * (header.count(',') + 1))}\n")
    refused(tmp_path / "x.csv", f"there are two columns '{header.split(',')[-1]}'; rename one")
