"""A headless Chromium for tests of pages, and what a page says while it is open."""

import shutil
from contextlib import contextmanager

import pytest

PATIENCE = 60_000  # milliseconds
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
)


@contextmanager
def start_chromium():
    """Start the system's Chromium; skip the test where it or playwright is missing.

    Its event loop runs in this thread until it is stopped: `asyncio.run` is refused meanwhile.
    """
    api = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no chromium is installed here")
    api.expect.set_options(timeout=PATIENCE)
    with (
        api.sync_playwright() as play,
        play.chromium.launch(executable_path=program, args=_FLAGS, timeout=PATIENCE) as browser,
    ):
        yield browser


class Heard:
    """All that a page says and asks for from now on; its dialogs are accepted."""

    def __init__(self, page):
        self.requests, self.complaints, self.dialogs = [], [], []
        page.on("request", lambda request: self.requests.append(f"{request.method} {request.url}"))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._note)
        page.on("dialog", self._accept)

    def _note(self, message):
        if message.type in ("error", "warning", "assert"):
            self.complaints.append(message.text)

    def _accept(self, dialog):
        self.dialogs.append(dialog.message)
        dialog.accept()


def wait(page, condition):
    """Return the value of an expression in the page once it is true.

    `page.wait_for_function` makes a function of text in the page, which the rules of ours forbid.
    """
    found = page.evaluate(
        f"""async (until) => {{
            for (until += performance.now(); performance.now() < until; ) {{
                const found = {condition};
                if (found) return found;
                await new Promise((done) => setTimeout(done, 20));
            }}
        }}""",
        PATIENCE,
    )
    assert found, f"it did not become true within {PATIENCE / 1000:g} s: {condition}"
    return found
