"""The JSON of answers and messages: one encoder, and vectors as short as a float32 allows."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from dygcn._extras import extra
from dygcn.engine.records import Float32

with extra("serve"):
    import orjson

# The shortest text of one float32, and its negative, is another float32 to who reads a float64 first, as most
# readers do: it is rounded twice. Every positive finite one was tried (orjson 3.13), and no other text is.
_ROUNDED_TWICE, _ONE_DIGIT_MORE = b"7.038531e-26", b"7.0385307e-26"


def vector_text(vectors: Float32) -> bytes:
    """Return a vector, or several, as JSON: the shortest numbers that become the same float32 again."""
    text = orjson.dumps(np.ascontiguousarray(vectors), option=orjson.OPT_SERIALIZE_NUMPY)
    return text.replace(_ROUNDED_TWICE, _ONE_DIGIT_MORE) if _ROUNDED_TWICE in text else text


def _array(value: Any) -> msgspec.Raw:
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        return msgspec.Raw(vector_text(value))
    if isinstance(value, np.ndarray) and value.dtype == np.float64:  # not a number: null
        return msgspec.Raw(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY))
    raise NotImplementedError(f"{type(value).__name__} has no JSON here")


encode = msgspec.json.Encoder(enc_hook=_array).encode
