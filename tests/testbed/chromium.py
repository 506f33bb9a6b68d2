"""Chromium without a window, driven over its debugging pipe (chromedevtools.github.io/devtools-protocol):
opens pages, presses keys, runs expressions, takes pictures, and keeps what the console said."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_KEYS = {"Enter": 13, "Escape": 27, "Home": 36, "End": 35, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39,
         "ArrowDown": 40,
         "Tab": 9}

# Chromium reads from descriptor 3 and writes to 4. They are moved away first, as either may be one of these
# already.
_MOVE = """import fcntl, os, sys
for to, at in zip((3, 4), [fcntl.fcntl(int(word), fcntl.F_DUPFD, 10) for word in sys.argv[1:3]]):
    os.dup2(at, to)
os.execv(sys.argv[3], sys.argv[3:])"""


class Chromium:
    """One page. `said` is what its console printed and what it refused or failed to do."""

    def __init__(self, into: int, out: int) -> None:
        self._into, self._out, self._rest, self._number = into, out, b"", 0
        self._session = ""
        self._events: list[dict[str, Any]] = []
        self.said: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._into, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            self._events.append(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, url: str, *, width: int = 1280, height: int = 900, dark: bool = False, script: bool = True,
             media: str = "") -> None:
        """Opens an address in a window of this size, and waits until it is loaded."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        self.send("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.send("Emulation.setScriptExecutionDisabled", value=not script)
        for address in ("about:blank", url):    # the same address with another fragment would not be loaded
            self.send("Page.navigate", url=address)
            self.wait("Page.loadEventFired")

    def wait(self, method: str, seconds: float = 60.0) -> None:
        """Until this event has come."""
        until = time.monotonic() + seconds
        while not any(event.get("method") == method for event in self._events):
            assert time.monotonic() < until, f"{method} did not come"
            self._events.append(self._read())
        self._note()

    def run(self, expression: str) -> Any:
        """The value of an expression; a promise is awaited."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        self._note()
        return found["result"].get("value")

    def press(self, *keys: str) -> None:
        """Presses keys one after the other: by name, or a character."""
        for key in keys:
            text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
            code = _KEYS.get(key, ord(key[0].upper()))
            self.send("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
            self.send("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Saves what is shown, or the whole page, as PNG."""
        found = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(found["data"]))

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.send("Page.printToPDF", printBackground=False)["data"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._out], [], [], 60)[0], "Chromium does not answer"
            more = os.read(self._out, 1 << 20)
            assert more, "Chromium has ended"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found

    def _note(self) -> None:
        for event in self._events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.consoleAPICalled":
                self.said.append(" ".join(str(each.get("value", each.get("description")))
                                          for each in params["args"]))
            elif method == "Log.entryAdded":
                self.said.append(params["entry"]["text"])
            elif method == "Runtime.exceptionThrown":
                self.said.append(params["exceptionDetails"].get("exception",
                                                                {}).get("description", "exception"))
            elif method == "Page.javascriptDialogOpening":
                self.said.append(f"dialog: {params['message']}")
        self._events.clear()


@contextlib.contextmanager
def chromium() -> Iterator[Chromium]:
    """A browser, which has ended when this ends."""
    assert CHROMIUM is not None
    theirs, into = os.pipe()
    out, mine = os.pipe()

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = subprocess.Popen(
            [sys.executable, "-c", _MOVE, str(theirs), str(mine), CHROMIUM, "--headless=new", "--no-sandbox",
             "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-dev-shm-usage",
             f"--user-data-dir={folder}",
             "--remote-debugging-pipe", "about:blank"],
            pass_fds=(theirs, mine), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            start_new_session=True)
        os.close(theirs)
        os.close(mine)
        try:
            yield Chromium(into, out)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()
            os.close(into)
            os.close(out)
