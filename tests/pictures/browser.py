"""Headless Chromium, controlled through pipes by the DevTools protocol.

Chromium reads commands from file descriptor 3 and answers on 4; each message is a JSON
text that ends in NUL. Mouse and key events are real, and only the browser is needed.
"""

import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TIMEOUT_SECONDS = 120


class Page:
    """Open page of a browser."""

    def __init__(self, commands: int, answers: int):
        self._commands, self._answers = commands, answers
        self._numbers = itertools.count(1)
        self._unread = b""
        self._session: str | None = None
        # URLs that the page requested, and its exceptions and log entries.
        self.requests: list[str] = []
        self.errors: list[str] = []

    def attach(self) -> None:
        """Opens an empty page and records its requests and errors."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        answer = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = answer["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Returns the browser's answer to a command of the protocol."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]
            self._record(answer)

    def open(self, url: str, width: int = 1200, height: int = 900) -> None:
        """Opens a URL in a window of a given size, in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.requests.clear()
        self.errors.clear()
        self.call("Page.navigate", url=url)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self.value("document.readyState + location.href") != f"complete{url}":
            assert time.monotonic() < deadline, f"{url} was not loaded"
            time.sleep(0.02)

    def value(self, expression: str) -> Any:
        """Returns the value of a JavaScript expression, as JSON."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def mouse(self, selector: str, click: bool = False) -> None:
        """Moves the mouse to the middle of an element; optionally clicks."""
        x, y = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        kinds = ["mouseMoved", *(["mousePressed", "mouseReleased"] if click else [])]
        for kind in kinds:
            button = {"button": "left", "clickCount": 1} if kind != kinds[0] else {}
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def mouse_away(self) -> None:
        """Moves the mouse away from all elements."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)

    def key(self, name: str) -> None:
        """Presses and releases a key."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36}
        codes |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        text = {"text": "\r"} if name == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=name,
                code=name,
                windowsVirtualKeyCode=codes[name],
                **(text if kind == "keyDown" else {}),
            )

    def prefer(self, scheme: str) -> None:
        """Sets the preferred color scheme: "dark" or "light"."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def _read(self) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while b"\0" not in self._unread:
            left = max(deadline - time.monotonic(), 0)
            ready, _, _ = select.select([self._answers], [], [], left)
            more = os.read(self._answers, 1 << 20) if ready else b""
            assert more, "the browser does not answer"
            self._unread += more
        message, self._unread = self._unread.split(b"\0", 1)
        return json.loads(message)

    def _record(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.errors.append(json.dumps(parameters))


@contextlib.contextmanager
def open_page(profile: Path) -> Iterator[Page]:
    """Starts a browser and yields a page of it; ends the browser afterwards.

    Args:
        profile: Empty folder for the browser's profile.
    """
    program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"none of {', '.join(PROGRAMS)}: no browser to open the page in")
    command_end, commands = os.pipe()
    answers, answer_end = os.pipe()

    arguments = [
        program,
        "--headless=new",
        "--remote-debugging-pipe",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        f"--user-data-dir={profile}",
        "about:blank",
    ]
    # The shell moves the pipes to the file descriptors that the browser uses.
    script = f'exec 3<&{command_end} 4>&{answer_end} && exec "$@"'
    with subprocess.Popen(
        ["bash", "-c", script, "browser", *arguments],
        pass_fds=(command_end, answer_end),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(command_end)
        os.close(answer_end)
        try:
            page = Page(commands, answers)
            page.attach()
            yield page
        finally:
            process.kill()
            os.close(commands)
            os.close(answers)
