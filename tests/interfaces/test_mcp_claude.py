"""The real Claude Code client with our MCP server: it is shown the tools, calls them, and gets their answers."""

import json
from pathlib import Path

from claude_client import make_client
from clihelp import Cli, Result
from mcp_client import command
from memdir.conversation.tool_calls import find_written_memory
from memdir.conversation.transcripts import read_messages
from servers import AnthropicServer, Call

_SAVE = {
    "type": "reference",
    "name": "bug-tracker",
    "description": "Where bugs of the billing service are tracked",
    "body": "In the tracker, project INGEST.",
}


def test_the_client_calls_our_tools_and_what_they_wrote_is_seen(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    program, *arguments = command("mcp", "--project", str(cli.project))
    # The client hands its own environment on, and in these tests that switches memory off.
    variables = {**cli.environ(), "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "0"}
    entry = {"command": program, "args": arguments, "env": variables, "alwaysLoad": True}
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"memdir": entry}}), encoding="utf-8")
    script: list[list[Call] | str] = [
        [Call("mcp__memdir__memory_save", _SAVE, "toolu_1")],
        [Call("mcp__memdir__memory_save", {**_SAVE, "body": "Elsewhere."}, "toolu_2")],
        [Call("mcp__memdir__memory_search", {"query": "where are billing bugs tracked?"}, "toolu_3")],
        "Saved and found.",
    ]
    with AnthropicServer(script) as server:
        # Five seconds is what the client waits by default: on a busy machine Python and the SDK take longer to start.
        client = make_client(tmp_path, server.url, MCP_TIMEOUT="60000", MCP_CONNECT_TIMEOUT_MS="60000")
        turn = client(
            "Remember where bugs are tracked",
            "--mcp-config", str(config), "--strict-mcp-config", "--allowedTools", "mcp__memdir",
        )  # fmt: skip
    assert (turn.code, turn.out) == (0, "Saved and found."), turn.err
    found: Result = cli("read", "bug-tracker", "--json")
    assert found.json["body"].strip() == "In the tracker, project INGEST."
    assert cli("history", "--json").json[0]["why"] == "by MCP from claude-code"
    messages = list(read_messages(client.transcript))
    answers = {at.answers: at for at in messages if at.role == "tool"}
    assert not answers["toolu_1"].failed and answers["toolu_2"].failed and "memory_update" in answers["toolu_2"].text
    assert "project INGEST" in answers["toolu_3"].text
    assert find_written_memory(messages, ["/nowhere"]) == ("mcp__memdir__memory_save",)
