"""The page in a real Chromium: a person's walk by mouse and by keys, accessibility, live changes, and attackers' pages."""

import http.server
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from browser import WatchedPage, browsing, find_overflow, find_violations, need_browser
from memdir.interfaces.web.app import open_browser
from memdir.store.open import Project, open_project
from servers.messages_server import AnthropicServer
from servers.scripts import read_blocks
from teams import make_team, memory_text
from ui_data import plant_demo
from ui_server import PageClient, serving

expect.set_options(timeout=20_000)  # other tests run beside this one
DATA = Path(__file__).parents[2] / "data"
PAGES = (
    "/memories", "/memories?q=may+I+deploy+on+Friday%3F", "/memories?state=forgotten", "/new", "/inbox", "/dream", "/timeline",
    "/why?prompt=may+I+deploy+on+Friday%3F", "/health?all=1", "/m/private/deploy-on-tuesdays-only",
    "/m/private/deploy-on-tuesdays-only?tab=edit", "/m/private/deploy-on-tuesdays-only?tab=source",
    "/m/private/staging-database-reset-sunday-night", "/m/private/nothing",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    need_browser()
    with browsing("--host-resolver-rules=MAP evil.test 127.0.0.1") as found:
        yield found


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = plant_demo(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageClient]:
    """The page of a demo that no test changes."""
    made = plant_demo(tmp_path_factory.mktemp("shared"))
    with serving(made) as page:
        yield page.sign_in()
    made.close()


@pytest.fixture
def client(project: Project) -> Iterator[PageClient]:
    with serving(project) as page:
        yield page


def run_memdir(project: Project, *arguments: str) -> None:
    environ = dict(project.environment.inherited)
    command = [sys.executable, "-m", "memdir", *arguments]
    subprocess.run(command, cwd=project.places.root.path, env=environ, check=True, capture_output=True)


def test_a_person_walks_through_every_screen_by_mouse(browser: Browser, project: Project, client: PageClient) -> None:
    tab = WatchedPage(browser, client)
    page = tab.page
    page.goto(client.address)
    page.wait_for_url("**/memories")
    assert client.token not in page.url and page.evaluate("document.cookie") == ""
    # Search as you type: what an agent would be given first.
    page.get_by_role("searchbox").press_sequentially("may I deploy on Friday?")
    expect(page.get_by_text("An agent would be given")).to_be_visible()
    assert "q=may" in page.url
    page.get_by_role("link", name="Deploy on Tuesdays only").first.click()
    # One memory: an edit, its undo.
    page.get_by_role("link", name=re.compile("^Edit e?")).first.click()
    page.get_by_label("Text", exact=True).fill("We deploy on Wednesdays only.")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("We deploy on Wednesdays only.").first).to_be_visible()
    assert "Wednesdays" in project.private.read("deploy-on-tuesdays-only").body
    page.get_by_role("button", name="Undo", exact=False).first.click()
    expect(page.locator(".said").get_by_text("We deploy on Tuesdays only.")).to_be_visible()
    page.get_by_role("button", name="Pin p").click()
    expect(page.get_by_role("button", name="Unpin p")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Check")).click()
    page.get_by_role("button", name="Forget").click()
    expect(page.get_by_text("It stays in history")).to_be_visible()
    page.get_by_role("button", name="Undo", exact=False).first.click()
    assert project.private.read("deploy-on-tuesdays-only").header.pinned
    # The inbox: a whole set, and its undo; then one, edited.
    page.get_by_role("link", name="Inbox").click()
    page.get_by_label("all", exact=False).check()
    page.get_by_role("button", name=re.compile("^Reject ⇧")).click()
    expect(page.get_by_role("heading", name="Nothing needs review")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Undo")).first.click()
    expect(page.get_by_text("3 need review.")).to_be_visible()
    page.get_by_role("link", name=re.compile("^Edit")).click()
    page.get_by_label("Text", exact=True).fill("The canary has to be green for 31 minutes.")
    page.get_by_role("button", name="Approve as edited").click()
    expect(page.get_by_text("2 need review.")).to_be_visible()
    assert "31 minutes" in project.private.read("canary-must-be-green-for-30-minutes").body
    # The dream: reject one, apply the rest, undo it.
    page.get_by_role("link", name="Dream").click()
    page.locator(".hunk").nth(0).get_by_text("Reject n").click()
    page.get_by_role("button", name=re.compile("^Apply")).click()
    expect(page.get_by_text("Applied 1 of 2.")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Undo")).first.click()
    page.get_by_role("link", name="Dream").click()
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".hunk")).to_have_count(1)  # what was rejected is not asked again
    # Why, timeline, health.
    page.get_by_role("link", name="Why").click()
    page.get_by_label("Prompt").press_sequentially("when is staging reset?")
    expect(page.get_by_role("heading", name=re.compile("would be shown"))).to_be_visible()
    page.get_by_role("link", name="Timeline").click()
    page.get_by_role("link", name=re.compile(r"^You \d")).click()
    page.locator(".acts li").filter(has_text="Tables for comparisons").get_by_role("button").click()
    expect(page.get_by_text("Undone.", exact=True)).to_be_visible()
    page.get_by_role("link", name="Health").click()
    expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    tab.close()
    assert tab.problems == []


def test_a_person_walks_by_keys_alone_on_a_phone(browser: Browser, project: Project, client: PageClient) -> None:
    tab = WatchedPage(browser, client.sign_in(), width=390, scheme="dark")
    page = tab.go("/memories")

    def press(key: str) -> None:
        page.wait_for_load_state("load")
        page.keyboard.press(key)

    def go(key: str) -> None:
        press("g")
        press(key)

    press("j")
    press("j")
    press("j")
    press("x")
    expect(page.locator("#selcount")).to_have_text("1")
    press("Enter")
    page.wait_for_url("**/m/**")
    press("p")
    expect(page.get_by_text("inned.")).to_be_visible()
    press("u")
    expect(page.get_by_text("Undone.", exact=True)).to_be_visible()
    press("e")
    page.wait_for_url("**tab=edit")
    page.get_by_label("Text", exact=True).focus()
    page.keyboard.type("Typed on a phone. ")
    press("Control+Enter")
    expect(page.locator(".said").get_by_text("Typed on a phone.")).to_be_visible()
    go("i")
    expect(page.get_by_text("1 of 3")).to_be_visible()
    press("j")
    expect(page.get_by_text("2 of 3")).to_be_visible()
    press("r")
    expect(page.get_by_text("Rejected 1.")).to_be_visible()
    press("a")
    expect(page.get_by_text("Approved 1.")).to_be_visible()
    press("u")
    expect(page.get_by_text("needs review again")).to_be_visible()
    go("d")
    page.wait_for_url("**/dream")
    press("j")
    press("n")
    expect(page.locator(".hunk.off")).to_have_count(1)
    press("Control+Enter")
    expect(page.get_by_text("Applied 1 of 2.")).to_be_visible()
    press("u")
    expect(page.get_by_text("Undone.", exact=True)).to_be_visible()
    go("w")
    page.wait_for_url("**/why")
    press("/")
    page.keyboard.type("may I deploy on Friday?")
    expect(page.get_by_role("heading", name=re.compile("would be shown"))).to_be_visible()
    press("Escape")
    go("t")
    page.wait_for_url("**/timeline")
    go("h")
    page.wait_for_url("**/health")
    go("m")
    page.wait_for_url("**/memories")
    press("/")
    page.keyboard.type("staging")
    expect(page.get_by_text("found in")).to_be_visible()
    tab.close()
    assert tab.problems == []


VIEWS = ((1280, "light"), (390, "dark"), (320, "light"))
NARROWEST = (*PAGES[:1], *PAGES[4:6], *PAGES[9:10])  # looked at with 320 pixels too


def look_at(tab: WatchedPage, path: str) -> list[object]:
    """What is wrong with a page in any view; it is loaded once and resized."""
    page, failed = tab.go(path), list[object]()
    for width, scheme in VIEWS if path in NARROWEST else VIEWS[:2]:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        failed += [(path, width, scheme, at) for at in find_violations(page)]
        failed += [(path, width, scheme, f"{over} px too wide") for over in [find_overflow(page)] if over > 0]
    return failed


def test_every_page_is_accessible_and_fits(browser: Browser, shared: PageClient) -> None:
    tab = WatchedPage(browser, shared)
    failed = [at for path in PAGES for at in look_at(tab, path)]
    tab.close()
    assert failed == [] and [at for at in tab.problems if "404" not in at] == []


def test_members_arrivals_and_what_somebody_wrote(browser: Browser, tmp_path: Path) -> None:
    ada, bob = make_team(tmp_path, "ada", "bob")
    bob.write("billing", memory_text("Billing bugs", "They are in the tracker."))
    bob.write("oncall", memory_text("On call", "Ask in the channel.", description="Who is on call this week"))
    bob.sync()
    ada.write("style", memory_text("Style", "Short.", description="How commit messages are written"))
    project = ada.open()
    with serving(project) as client:
        tab = WatchedPage(browser, client.sign_in())
        run_memdir(project, "team", "sync")
        page = tab.go("/m/private/team/billing")
        expect(page.locator(".facts")).to_contain_text("Bob")
        expect(page.get_by_role("button", name="Pin")).to_have_count(0)  # what a team shares cannot be
        assert look_at(tab, "/m/private/team/billing") == []
        tab.close()
        assert tab.problems == []
    project.close()


def test_what_an_agent_changes_is_shown_and_an_edit_is_never_lost(
    browser: Browser, project: Project, client: PageClient
) -> None:
    tab = WatchedPage(browser, client.sign_in())
    page, other = tab.go("/m/private/deploy-on-tuesdays-only"), tab.open_tab()
    other.goto(f"{tab.base}/m/private/deploy-on-tuesdays-only?tab=edit")
    others = [tab.open_tab() for _ in range(7)]
    for at in others:
        at.goto(f"{tab.base}/memories", wait_until="domcontentloaded")
    other.get_by_label("Text", exact=True).fill("We deploy on Thursdays.\n\n**Why:** support is staffed then.")
    run_memdir(
        project, "edit", "deploy-on-tuesdays-only", "--description", "We deploy on Mondays, because nobody minds then"
    )
    path = project.private.root / "deploy-on-tuesdays-only.md"
    path.write_text(path.read_text(encoding="utf-8").replace("Tuesdays only.", "Mondays."), encoding="utf-8")
    page.bring_to_front()
    expect(page.locator(".said").get_by_text("We deploy on Mondays.")).to_be_visible()
    expect(other.locator("#changed")).to_be_visible()
    other.bring_to_front()
    other.get_by_role("button", name="Save").click()
    expect(other.get_by_role("heading", name="This memory changed while you were editing")).to_be_visible()
    assert find_violations(other) == []
    assert "Mondays" in project.private.read("deploy-on-tuesdays-only").text
    assert {"Thursdays", "Mondays."} <= set(
        re.findall("Thursdays|Mondays[.]", other.get_by_label("Result").input_value())
    )
    other.get_by_role("button", name="Save the result").click()
    expect(other.get_by_role("status").first).to_contain_text("Saved")
    memory = project.private.read("deploy-on-tuesdays-only")
    assert "Thursdays" in memory.body and "nobody minds" in memory.header.description
    tab.close()
    assert [at for at in tab.problems if "409" not in at] == []


LIVE = "memdir-live"
RENEW = """() => {
  window.renewed = new Promise((done) => addEventListener("htmx:afterRequest", () => done(1), {once: true}));
  new BroadcastChannel("memdir" + document.querySelector("meta[name=base]").content).postMessage(1e9);
}"""


def test_a_dream_with_a_model_is_reviewed(browser: Browser, project: Project) -> None:
    answers = [read_blocks(at) for at in json.loads((DATA / "dream_on_page.json").read_text(encoding="utf-8"))]
    held: list[Route] = []
    with AnthropicServer(lambda body: answers.pop(0)) as server:
        variables = {**project.environment.inherited, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-1"}
        opened = open_project(
            project.places.root.path, environ={**variables, "MEMDIR_MODEL": "anthropic:any", "MEMDIR_NO_WORKER": "1"}
        )
        with serving(opened) as client:
            tab = WatchedPage(browser, client.sign_in())
            page = tab.go("/dream")
            page.get_by_role("button", name="Preview again").click()
            expect(page.locator(".hunk")).to_have_count(5, timeout=90_000)  # the dream is one request
            # Only what each one does itself.
            expect(page.get_by_text("background-of-the-user.md, forgotten")).to_have_count(1)
            assert find_violations(page) == []
            # A renewal that is under way when a person decides does not take the decision back.
            page.route("**/dream/*", lambda at: held.append(at) if LIVE in at.request.headers else at.continue_())
            with page.expect_request(lambda at: LIVE in at.headers):
                page.evaluate(RENEW)
            page.locator(".hunk").nth(4).get_by_text("Reject n").click()
            held[0].continue_()
            page.evaluate("window.renewed")
            page.get_by_role("button", name=re.compile("^Apply")).click()
            expect(page.get_by_text("Applied 4 of 5.")).to_be_visible()
            tab.close()
            assert tab.problems == []
        opened.close()
    assert project.private.read("pipeline-bugs-tracked-in-linear")
    assert project.private.read("pipeline-bugs-tracked-in-jira").header.cues[0] == "where do I report a pipeline bug"
    assert "background-of-the-user" not in [at.name for at in project.private.scan()]


class _Attacker(http.server.BaseHTTPRequestHandler):
    page = ""
    cookies: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.cookies.append(self.headers.get("cookie", ""))
        body = self.page.encode()
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def attacker() -> Iterator[http.server.ThreadingHTTPServer]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Attacker)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def test_an_attackers_page_reads_and_changes_nothing(
    browser: Browser, shared: PageClient, attacker: http.server.ThreadingHTTPServer
) -> None:
    client, tab = shared, WatchedPage(browser, shared)
    tab.go("/memories")
    before = client.get("/timeline.json").text
    target, port = f"{tab.base}/m/private/deploy-on-tuesdays-only/do/forget", attacker.server_address[1]
    rebound = f"http://evil.test:{client.port}{client.root}/memories"
    _Attacker.page = f"""<!doctype html><meta charset="utf-8"><form id="f" method="post" action="{target}" target="frame">
<input name="csrf" value="x"></form><iframe name="frame"></iframe><img src="{tab.base}/memories"><script>
window.seen = [];
const tries = [["{tab.base}/memories.json", {{credentials: "include"}}], ["{tab.base}/memories.json", {{credentials: "include", mode: "no-cors"}}],
  ["{target}", {{method: "POST", credentials: "include", body: "csrf=x", headers: {{"content-type": "application/x-www-form-urlencoded"}}}}],
  ["{tab.base}/open", {{method: "POST", body: "guess"}}], ["{rebound}", {{}}]];
(async () => {{ for (const [url, how] of tries) {{
  try {{ const answer = await fetch(url, how); window.seen.push([answer.status, answer.type, (await answer.text()).includes("Tuesdays")]); }}
  catch (error) {{ window.seen.push(["refused", "", false]); }} }} document.getElementById("f").submit(); window.over = true; }})();
</script>"""
    failed = []
    # A site of another name, and a page of another port of the same host, in the victim's own browser.
    for host in (f"evil.test:{port}", f"127.0.0.1:{port}"):
        page = tab.context.new_page()
        _Attacker.cookies.clear()
        page.goto(f"http://{host}/")
        page.wait_for_function("window.over === true")
        page.wait_for_load_state("networkidle")
        seen = page.evaluate("window.seen")
        failed += [(host, at) for at in seen if at[2] or at[0] == 200]
        failed += [(host, "cookie")] if any(client.cookie.partition("=")[2] in at for at in _Attacker.cookies) else []
        page.close()
    rebinding = tab.context.new_page()
    answer = rebinding.goto(rebound)
    assert answer is not None and answer.status == 403
    framing = tab.context.new_page()
    _Attacker.page = f'<!doctype html><iframe src="{tab.base}/memories"></iframe>'
    framing.goto(f"http://127.0.0.1:{port}/")
    framing.wait_for_load_state("networkidle")
    assert all("Tuesdays" not in frame.content() for frame in framing.frames)
    # Another user of the machine has no cookie.
    stranger = browser.new_context().new_page()
    refused = stranger.goto(f"{tab.base}/memories")
    assert refused is not None and refused.status == 401
    used = stranger.goto(client.address)
    assert used is not None
    expect(stranger.get_by_text("this address was already used")).to_be_visible()
    assert failed == [] and client.get("/timeline.json").text == before
    tab.close()


def test_a_private_file_opens_the_page(
    browser: Browser, client: PageClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    folder = tmp_path / "private"
    folder.mkdir()
    open_browser(folder, client.address)
    page: Page = browser.new_context().new_page()
    page.goto((folder / "memdir.html").as_uri())
    page.wait_for_url("**/memories")
    page.close()
