"""The MCP door: real processes on pipes and on loopback, the SDK's own client and raw frames, old revisions and new."""

import hashlib
import json
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from clihelp import Cli, memory_text
from mcp_client import MODERN, SECONDS, Loopback, command, listening, running
from memdir.errors import SettingsError
from memdir.interfaces.mcp import PAGE, TOOLS, McpContext, make_server, open_token

GOLDEN = Path(__file__).parents[1] / "data" / "mcp"
SAVED: dict[str, Any] = {
    "type": "feedback",
    "name": "terse-replies",
    "description": "No summary at the end of a reply",
    "body": "Leave out the closing summary.\n\n**Why:** The diff is read.\n\n**How to apply:** In every reply.",
}


def make_client(cli: Cli, mode: str = "auto", **variables: str) -> Client:
    """The SDK's client on a server in this process."""
    return Client(make_server(McpContext(cli.project, variables={**cli.variables, **variables})), mode=mode)


def words(content: Any) -> str:
    """The text of something that may be text."""
    return str(content.text)


async def play(client: Client, version: str) -> list[str]:
    """A little of everything; answers the names that a search found."""
    async with client:
        assert client.protocol_version == version
        assert client.server_capabilities.tools and client.server_capabilities.prompts
        assert client.instructions and len(client.instructions.encode()) < 2048
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == [tool.name for tool in TOOLS]
        saved = await client.call_tool("memory_save", SAVED)
        assert not saved.is_error and saved.structured_content["action"] == "created"
        again = await client.call_tool("memory_save", {**SAVED, "body": "No."})
        assert again.is_error and "memory_update" in words(again.content[0])
        found = await client.call_tool("memory_search", {"query": "should a reply end with a summary?"})
        resources = (await client.list_resources()).resources
        assert {"memdir://index/private", "memdir://private/terse-replies"} <= {at.uri for at in resources}
        read = await client.read_resource("memdir://private/terse-replies")
        assert "Leave out the closing summary." in words(read.contents[0])
        index = await client.read_resource("memdir://index/private")
        assert "(terse-replies.md)" in words(index.contents[0])
        prompt = await client.get_prompt("recall", {"question": "should a reply end with a summary?"})
        assert "Leave out the closing summary." in words(prompt.messages[0].content)
        return [row["name"] for row in found.structured_content["memories"]]


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
def test_the_sdks_client_works_over_pipes_in_both_eras(cli: Cli, mode: str, version: str) -> None:
    program, *arguments = command("mcp")
    started = StdioServerParameters(command=program, args=arguments, env=cli.environ(), cwd=cli.project)

    async def main() -> None:
        with anyio.fail_after(SECONDS):
            assert await play(Client(started, mode=mode), version) == ["terse-replies"]

    anyio.run(main)
    assert cli("list", "--json").json[0]["name"] == "terse-replies"


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
def test_every_older_revision_is_spoken_on_the_wire(cli: Cli, server: Loopback, version: str) -> None:
    hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    status, _, data = server.request(body, {"MCP-Protocol-Version": version})
    assert status == 200 and json.loads(data)["result"]["protocolVersion"] == version
    asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    status, headers, data = server.request(asked, {"MCP-Protocol-Version": version})
    tools = json.loads(data)["result"]["tools"]
    assert status == 200 and len(tools) == len(TOOLS) and "mcp-session-id" not in headers
    assert "inputSchema" in tools[0]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    """One server on loopback for the tests that do not mind sharing it."""
    with listening(Cli(tmp_path_factory.mktemp("loopback"))) as found:
        yield found


def test_the_sdks_client_works_over_http_in_both_eras(server: Loopback) -> None:
    async def main(mode: str, version: str) -> list[str]:
        with anyio.fail_after(SECONDS):
            headers = {"Authorization": f"Bearer {server.token}"}
            async with httpx2.AsyncClient(headers=headers, timeout=SECONDS) as line:
                client = Client(streamable_http_client(server.url, http_client=line), mode=mode)
                return await play(client, version)

    for mode, version in (("legacy", "2025-11-25"), ("auto", "2026-07-28")):
        assert anyio.run(main, mode, version) == ["terse-replies"]
        assert not server.call("memory_forget", name="terse-replies")["isError"]


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.mark.parametrize("host", ["attacker.example", "127.0.0.1", "127.0.0.1:1", "localhost.:{}", "127.0.0.2:{}", ""])
def test_a_foreign_host_is_refused(server: Loopback, host: str) -> None:
    assert server.request(PING, {"Host": host.format(server.port)})[0] == 403
    assert server.request(PING, {"Host": f"localhost:{server.port}"})[0] == 200


@pytest.mark.parametrize("given", [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic {}", "{}", "Bearer {}x"])
def test_a_missing_or_wrong_token_is_refused(server: Loopback, given: str | None) -> None:
    shown = None if given is None else given.format(server.token)
    status, headers, body = server.request(PING, {"Authorization": shown})
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert server.token.encode() not in body


def test_host_is_looked_at_before_the_token_and_the_token_before_all_else(server: Loopback) -> None:
    assert server.request(PING, {"Host": "attacker.example", "Authorization": None})[0] == 403
    assert server.request(PING, {"Authorization": None}, method="GET", path="/elsewhere")[0] == 401
    assert server.request(PING, method="GET")[0] == 405
    assert server.request(PING, method="DELETE")[0] == 405
    assert server.request(PING, method="OPTIONS", headers={"Authorization": None})[0] == 401
    assert server.request(PING, path="/elsewhere")[0] == 404


def test_a_body_that_is_too_large_or_no_json_is_refused(server: Loopback) -> None:
    assert server.request(b"{" * 100, {"Content-Length": str(10**9)})[0] == 413
    assert server.request(PING, {"Content-Type": "text/plain"})[0] in (400, 415)
    assert server.request(b"not json")[0] == 400
    assert server.request(PING)[0] == 200


def test_it_listens_on_loopback_alone(server: Loopback) -> None:
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    if not all(table.exists() for table in tables):
        pytest.skip("this system has no /proc/net")
    rows = [line.split() for table in tables for line in table.read_text(encoding="ascii").splitlines()[1:]]
    own = {row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{server.port:04X}")}
    assert own == {f"0100007F:{server.port:04X}"}


def test_the_token_is_made_once_and_for_its_owner_only(server: Loopback, tmp_path: Path) -> None:
    assert stat.S_IMODE(os.stat(server.token_file).st_mode) == 0o600 and len(server.token) >= 43
    token = open_token(tmp_path / "state" / "token")
    assert open_token(tmp_path / "state" / "token") == token and token.value.decode() not in repr(token)
    assert [at.name for at in (tmp_path / "state").iterdir()] == ["token"]
    assert token.is_shown_by(b"Bearer " + token.value) and not token.is_shown_by(token.value)


def test_a_token_that_is_no_secret_is_refused(tmp_path: Path) -> None:
    path = open_token(tmp_path / "token").file
    path.chmod(0o644)
    with pytest.raises(SettingsError, match="others can read") as caught:
        open_token(path)
    assert "chmod" in caught.value.hint
    path.chmod(0o600)
    path.write_text("short\n", encoding="ascii")
    with pytest.raises(SettingsError, match="invalid token file"):
        open_token(path)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(SettingsError, match="is a link"):
        open_token(tmp_path / "link")


def test_a_port_that_is_taken_and_a_project_there_is_not_are_one_line(cli: Cli, server: Loopback) -> None:
    taken = cli.real("mcp", "--http", "--port", str(server.port))
    assert "cannot listen" in taken.refusal and "--port" in taken.refusal
    assert "folder not found" in cli.real("mcp", "--project", "nowhere").refusal


def test_the_door_is_not_imported_by_other_calls(cli: Cli) -> None:
    code = "import sys; from memdir.interfaces.cli import run; run(['list']); assert 'mcp' not in sys.modules, 'loaded'"
    environ = {**cli.environ(), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([command()[0], "-c", code], env=environ, cwd=cli.project, check=True, timeout=SECONDS)


def test_a_directory_given_takes_the_projects_place_and_an_interrupt_ends_it(cli: Cli, tmp_path: Path) -> None:
    with running(cli, before=("--dir", str(tmp_path / "elsewhere"))) as wire:
        wire.shake_hands()
        assert not wire.call("memory_save", **SAVED)["isError"]
        wire.process.send_signal(signal.SIGINT)
        wire.process.wait(SECONDS)
        assert (wire.out.read(), wire.err.read()) == (b"", b"")
    assert (tmp_path / "elsewhere" / "terse-replies.md").is_file() and cli("list", "--json").json == []


def test_what_does_not_exist_is_an_error_with_words(cli: Cli) -> None:
    async def main() -> None:
        async with make_client(cli) as client:
            for asked in (
                client.call_tool("memory_explode", {}),
                client.read_resource("memdir://private/nothing"),
                client.read_resource("memdir://index/nothing"),
                client.read_resource("memdir://private/../../etc/passwd"),
                client.read_resource("file:///etc/passwd"),
                client.get_prompt("nothing"),
                client.get_prompt("recall", {}),
                client.list_resources(cursor="x"),
            ):
                with pytest.raises(MCPError) as caught:
                    await asked
                assert caught.value.error.code == -32602 and "\n" not in caught.value.error.message

    anyio.run(main)


def test_many_memories_are_listed_page_by_page(cli: Cli) -> None:
    count = PAGE + 5
    for number in range(count):
        (cli.memory).mkdir(parents=True, exist_ok=True)
        (cli.memory / f"größe {number}.md").write_text(memory_text(f"M{number}"), encoding="utf-8")

    async def main() -> list[str]:
        async with make_client(cli) as client:
            first = await client.list_resources()
            rest = await client.list_resources(cursor=first.next_cursor)
            assert rest.next_cursor is None
            found = [at.uri for at in (*first.resources, *rest.resources)]
            assert "M3" in words((await client.read_resource("memdir://private/gr%C3%B6%C3%9Fe%203")).contents[0])
            return [uri for uri in found if not uri.startswith("memdir://index/")]

    found = anyio.run(main)
    assert len(set(found)) == count


def test_the_tool_list_is_the_one_the_docs_vouch_for() -> None:
    """What a client approved must not change under it unnoticed: docs/mcp.md has the digest."""
    rows = [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in TOOLS]
    digest = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
    page = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")
    assert digest in page, f"docs/mcp.md should vouch for {digest}"


@pytest.mark.parametrize("name", ["remember", "recall", "dream"])
def test_every_prompt_reads_as_its_golden_text(cli: Cli, name: str) -> None:
    cli.save()
    given = {"remember": {"text": "we deploy on Tuesdays"}, "recall": {"question": "a summary at the end of a reply?"}}

    async def main() -> str:
        async with make_client(cli, mode="legacy") as client:
            listed = {at.name: at for at in (await client.list_prompts()).prompts}
            assert set(listed) == {"remember", "recall", "dream"}
            prompt = await client.get_prompt(name, given.get(name))
            assert [at.role for at in prompt.messages] == ["user"]
            text = words(prompt.messages[0].content)
            return text.replace(str(cli.memory), "MEMORY")

    golden = GOLDEN / f"{name}.md"
    text = anyio.run(main) + "\n"
    if os.environ.get("RECORD_GOLDENS"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_the_newest_revision_needs_no_handshake(server: Loopback) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": MODERN}}
    status, _, data = server.request(body, {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"})
    result = json.loads(data)["result"]
    assert status == 200 and "2026-07-28" in result["supportedVersions"] and result["resultType"] == "complete"
    assert server.call("memory_list")["structuredContent"]["total"] >= 0
