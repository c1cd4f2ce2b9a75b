"""A headless Chromium for tests of pages, told what to do over its DevTools protocol."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

PATIENCE = 60.0
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-proxy-server",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)


def find_chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Tab:
    """One page that is open, and all that it said and asked for."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.dialogs: list[str] = []
        self._instead: dict[str, Any] = {}
        for room in ("Page", "Runtime", "Log", "Network"):
            self.do(f"{room}.enable")

    def do(self, method: str, **params: Any) -> dict[str, Any]:
        """Give a command and return its result."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            said = json.loads(self._socket.recv(PATIENCE))
            if said.get("id") == number:
                if "error" in said:
                    raise AssertionError(f"{method}: {said['error']}")
                return dict(said["result"])
            self._note(said.get("method", ""), said.get("params", {}))

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            request = params["request"]
            self.requests.append(f"{request['method']} {request['url']}")
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(json.dumps(params["entry"]))
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(params["message"])
            self._tell("Page.handleJavaScriptDialog", accept=True)
        elif method == "Fetch.requestPaused":
            self._tell("Fetch.fulfillRequest", requestId=params["requestId"], **self._instead)

    def _tell(self, method: str, **params: Any) -> None:
        """Give a command whose result nobody waits for."""
        self._socket.send(json.dumps({"id": next(self._numbers), "method": method, "params": params}))

    def replace(self, address: str, page: bytes, headers: dict[str, str]) -> None:
        """Have another page in the place of one, as if it were served from there."""
        told = [{"name": name, "value": value} for name, value in headers.items()]
        self._instead = {
            "responseCode": 200,
            "responseHeaders": [{"name": "Content-Type", "value": "text/html; charset=utf-8"}, *told],
            "body": base64.b64encode(page).decode(),
        }
        self.do("Fetch.enable", patterns=[{"urlPattern": address}])

    def go(
        self,
        address: str,
        width: int = 1280,
        height: int = 900,
        *,
        scheme: str = "light",
        motion: bool = True,
    ) -> None:
        """Open an address in a window of a size, with nothing noted of what was before."""
        self.do("Page.navigate", url="about:blank")
        self.wait("location.href === 'about:blank' && document.readyState === 'complete'")
        self.requests, self.complaints, self.dialogs = [], [], []
        phone = width < 600
        self.do(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        self.do("Emulation.setTouchEmulationEnabled", enabled=phone)
        self.do(
            "Emulation.setEmulatedMedia",
            features=[
                {"name": "prefers-color-scheme", "value": scheme},
                {"name": "prefers-reduced-motion", "value": "no-preference" if motion else "reduce"},
            ],
        )
        self.do("Page.navigate", url=address)
        self.wait("location.href !== 'about:blank' && document.readyState === 'complete'")

    def ask(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        found = self.do(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, timeout=10_000
        )
        if "exceptionDetails" in found:
            raise AssertionError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def text(self, name: str) -> str:
        """Return what can be read in an element."""
        return str(self.ask(f"document.getElementById({json.dumps(name)}).textContent"))

    def number(self, name: str) -> float:
        """Return the number that stands first in an element."""
        return float(self.text(name).split()[0].replace(",", ""))

    def wait(self, condition: str, seconds: float = PATIENCE) -> Any:
        """Return the value of an expression once it is true."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = self.ask(condition)
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"it did not become true within {seconds:g} s: {condition}")

    def click(self, x: float, y: float) -> None:
        """Click with the mouse."""
        self.do("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.do("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def tap(self, x: float, y: float) -> None:
        """Tap with a finger."""
        self.do("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.do("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def write(self, name: str, text: str) -> None:
        """Write into a field as a person would, and press Enter."""
        self.ask(f"document.getElementById({json.dumps(name)}).focus()")
        self.ask(f"document.getElementById({json.dumps(name)}).select()")
        self.do("Input.insertText", text=text)
        enter = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
        for kind in ("keyDown", "keyUp"):
            self.do("Input.dispatchKeyEvent", type=kind, **enter)

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Write a PNG of what is seen, or of the whole page."""
        found = self.do("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))


@contextmanager
def open_tab(program: str) -> Iterator[Tab]:
    """Start a browser with nothing remembered, and end it with all its processes."""
    with tempfile.TemporaryDirectory(prefix="dygcn-page-", ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [program, *_FLAGS, f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            with connect(
                _address(process, Path(folder)), proxy=None, max_size=None, ping_interval=None
            ) as socket:
                yield Tab(socket)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _address(process: subprocess.Popen[bytes], folder: Path) -> str:
    file, until = folder / "DevToolsActivePort", time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        if file.exists() and len(lines := file.read_text().split()) == 2:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"http://127.0.0.1:{lines[0]}/json/list", timeout=PATIENCE) as answer:
                pages = [one for one in json.load(answer) if one["type"] == "page"]
            if pages:
                return str(pages[0]["webSocketDebuggerUrl"])
        time.sleep(0.05)
    raise AssertionError("the browser did not start")
