"""Memories written to attack whoever looks at them, in a real Chromium: no dialog, no request elsewhere, no broken layout."""

from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from browser import WatchedPage, browsing, find_overflow, need_browser
from loads import scaled
from memdir.interfaces.web.render import render_diff, render_markdown, split_blocks
from memdir.store.open import open_project
from ui_server import serving

_EVIL = "http://evil.test/x"
PAYLOADS = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", f"<img src={_EVIL}.png>", f"![pixel]({_EVIL}.png)", "<svg onload=alert(1)>",
    f"<svg><use href='{_EVIL}.svg#a'/></svg>", "<a href='javascript:alert(1)'>x</a>", "[x](javascript:alert(1))", "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)", "[x](vbscript:x)", f"<iframe src={_EVIL}></iframe>", f"<link rel=stylesheet href={_EVIL}.css>",
    f"<style>@import '{_EVIL}.css'; body{{display:none}}</style>", "<b style='position:fixed;inset:0;z-index:9999;background:red'>x</b>",
    f"<meta http-equiv=refresh content='0;url={_EVIL}'>", f"<base href={_EVIL}>", f"<form action={_EVIL}><input name=csrf autofocus onfocus=alert(1)></form>",
    "<details open ontoggle=alert(1)>", "<video><source onerror=alert(1)></video>", "<math><mi xlink:href='javascript:alert(1)'>x</mi></math>",
    f"<object data={_EVIL}></object><embed src={_EVIL}>", "</textarea><script>alert(1)</script>", "</td></tr></table><h1>out</h1>", "</div></main><main>",
    "{{ 7*7 }}{% raw %}{{ config }}", "${alert(1)}", "'\"><img src=x onerror=alert(1)>", "\" autofocus onfocus=alert(1) x=\"", "--><script>alert(1)</script>",
    "\u202eevil text turned around\u202c", "\u2066\u2067isolates\u2069", "a\u0300" * 400, "\u200b\u200c\u200d\ufeffhidden", "x" * 20_000, "\u4e2d" * 5_000, "word " * 8_000,
    "> " * 300 + "deep", "- " * 300 + "deep", "[" * 500 + "x" + "]" * 500, "*" * 2_000, "`" * 999, "|" + "a|" * 300 + "\n|" + "-|" * 300, "# " * 50,
    "```\nunclosed\n" + "x" * 300, "[[deploy]] [[../../etc/passwd]] [[javascript:alert(1)]]", "[x](/do/undo) [y](//evil.test) [z](../../memories)",
    "<" * 3_000, "&lt;script&gt;alert(1)&lt;/script&gt; &#106;avascript:", "\x00\x01\x1b[31mred", f"<http://evil.test/x> {_EVIL}", f"[ref]: {_EVIL}\n\n![ref]",
    "<x onclick=alert(1) tabindex=1 id=main class=side>click</x>", f"<div hx-get='{_EVIL}' hx-trigger='load'>x</div>", "<p data-key=a data-live id=live>x</p>",
)  # fmt: skip


def plant_hostile(folder: Path, count: int) -> None:
    """Files with each payload as title, description, type, cue, link and body in turn."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, payload in enumerate(islice(cycle(PAYLOADS), count)):
        line, place = payload.replace("\n", " ")[:3_000], number // len(PAYLOADS) % 5
        quoted = "'" + line.replace("'", "''") + "'"
        fields = {
            "name": f"Memory {number}",
            "description": f"The description of memory number {number}",
            "type": "project",
        }
        fields |= {
            1: {"name": quoted},
            2: {"description": quoted},
            3: {"type": quoted},
            4: {"cues": f"[{quoted}]"},
        }.get(place, {})
        head = "\n".join(f"{key}: {value}" for key, value in fields.items())
        text = f"---\n{head}\n---\n\nBefore.\n\n{payload}\n\nAfter.\n"
        (folder / f"hostile-{number:03}.md").write_bytes(text.encode("utf-8", "surrogatepass"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    need_browser()
    with browsing() as found:
        yield found


def test_hostile_memories_do_nothing_to_who_looks_at_them(browser: Browser, tmp_path: Path) -> None:
    root, count = tmp_path / "work", max(scaled(500), len(PAYLOADS))
    (root / ".git").mkdir(parents=True)
    project = open_project(root, environ={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    plant_hostile(project.private.root, count)
    failed = []
    with serving(project) as client:
        tab = WatchedPage(browser, client.sign_in())
        lists = [f"/memories?after={start}" for start in range(0, count, 50)]
        views = [f"/m/private/hostile-{number:03}" for number in range(count)]
        others = [
            "/timeline",
            "/health",
            "/why?prompt=memory+number+7+description",
            "/memories?q=script+alert",
            f"{views[0]}?tab=edit",
        ]
        for path in (*lists, *others, *views):
            page = tab.go(path)
            title = page.evaluate("document.querySelector('.side .brand b').textContent")
            mains = page.evaluate(
                "[document.querySelectorAll('main').length, document.querySelectorAll('script:not([src])').length]"
            )
            over = find_overflow(page)
            if tab.problems or over > 0 or title != "work" or mains != [1, 0]:
                failed.append((path, tab.problems[:2], over, title, mains))
                tab.problems.clear()
        tab.close()
    project.close()
    assert failed == []


def test_rendered_markdown_has_no_handler_address_or_element_that_could_act() -> None:
    failed = []
    for payload in PAYLOADS:
        html = str(render_markdown(payload)).lower()
        parts = [
            html,
            *(str(at.html).lower() for at in split_blocks(payload, (), {})),
            *(str(at.html) for at in render_diff("", payload)),
        ]
        tags = (
            "<script",
            "<img",
            "<svg",
            "<iframe",
            "<style",
            "<form",
            "<input",
            "<object",
            "<meta",
            "<link",
            "<base",
            "<video",
            " on",
            "style=",
        )
        for tag in tags[:12]:
            failed += [(payload[:40], tag) for part in parts if tag in part]
        failed += [
            (payload[:40], "address")
            for part in parts
            if 'href="javascript' in part or 'href="data' in part or 'href="/' in part
        ]
    assert failed == []
