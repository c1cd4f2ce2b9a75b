"""Epochs for `DurableEmbedding` where it has none yet, just enough for the pumps of sinks."""

import itertools
import json
import secrets

from dygcn.live import DurableEmbedding
from dygcn.records import History

_GENERATIONS = itertools.count(1_700_000_000_000)


def _epoch(live):
    file = live.folder / "epoch.json"
    if not file.exists():
        file.write_text(json.dumps([next(_GENERATIONS), secrets.token_hex(8)]))
    return json.loads(file.read_text())


def history(live):
    chain = live.log.chain if live.sequence == live.log.last else live.log.chain_at(live.sequence)
    return History(*_epoch(live), live.sequence, chain.hex())


def confirms(live, held):
    chain = live.log.chain_at(held.sequence)
    return [held.generation, held.epoch] == _epoch(live) and chain is not None and chain.hex() == held.chain


def begin_epoch(live):
    (live.folder / "epoch.json").unlink()
    _epoch(live)


if not hasattr(DurableEmbedding, "history"):
    DurableEmbedding.history = property(history)
    DurableEmbedding.confirms = confirms
    DurableEmbedding.begin_epoch = begin_epoch
