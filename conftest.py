"""Examples in kernel modules are run on what was compiled from them, which is another file."""

import os

os.environ.setdefault("PY_IGNORE_IMPORTMISMATCH", "1")
