"""A real Chromium for tests of the page, and what every page in it must keep to."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, sync_playwright

from loads import ROOT
from ui_server import PageClient

CHROMIUM = "/usr/bin/chromium"
AXE = ROOT / ".venv" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
IS_NEEDED = os.environ.get("MEMDIR_NEEDS_BROWSER") == "1"  # now: each test has an environment of its own
_ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


def need_browser() -> None:
    """Skip where there is no Chromium, loudly; where MEMDIR_NEEDS_BROWSER is set, fail instead."""
    missing = [str(at) for at in (Path(CHROMIUM), AXE) if not at.exists()]
    if missing and IS_NEEDED:
        pytest.fail(f"{', '.join(missing)} is not there: scripts/test fetches it as root and with npm")
    if missing:
        pytest.skip(f"no browser: {', '.join(missing)} is not there; the page was NOT tested")


@contextmanager
def browsing(*more: str) -> Iterator[Browser]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=[*_ARGUMENTS, *more])
        try:
            yield browser
        finally:
            browser.close()


class WatchedPage:
    """A signed-in tab that notes console errors, dialogs, and requests to anywhere else."""

    def __init__(self, browser: Browser, client: PageClient, *, width: int = 1280, scheme: str = "light") -> None:
        options: Any = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme, "reduced_motion": "reduce"}
        self.client, self.context = client, browser.new_context(**options)
        self.problems: list[str] = []
        if client.cookie:
            name, _, value = client.cookie.partition("=")
            cookie: Any = {"name": name, "value": value, "domain": "127.0.0.1", "path": f"{client.root}/"}
            cookie |= {"httpOnly": True, "sameSite": "Strict"}
            self.context.add_cookies([cookie])
        self.page = self.open_tab()

    @property
    def base(self) -> str:
        return f"http://{self.client.own}{self.client.root}"

    def open_tab(self) -> Page:
        page = self.context.new_page()
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", self._dismiss)
        page.on("request", self._check)
        page.set_default_timeout(60_000)
        return page

    def _hear(self, said: ConsoleMessage) -> None:
        if said.type in ("error", "warning"):
            self.problems.append(said.text)

    def _dismiss(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _check(self, request: Request) -> None:
        if not request.url.startswith((f"{self.base}/", "data:", "about:")):
            self.problems.append(f"request to {request.url}")

    def go(self, path: str) -> Page:
        self.page.goto(self.base + path)
        return self.page

    def close(self) -> None:
        self.context.close()


def find_violations(page: Page) -> list[str]:
    """What axe finds wrong that is serious or critical."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    bad = [at for at in found["violations"] if at["impact"] in ("serious", "critical")]
    return [
        f"{at['id']}: {at['nodes'][0]['html'][:120]} {at['nodes'][0].get('failureSummary', '')[:120]}" for at in bad
    ]


def find_overflow(page: Page) -> int:
    """How many pixels the page is wider than the window."""
    width: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return width
