"""A memory directory that the real Claude Code client has written, brought into another project."""

from pathlib import Path

from claude_client import make_client
from clihelp import Cli
from importers import read_tree
from memdir.format.frontmatter import parse_fields
from memdir.project.paths import slug
from servers import AnthropicServer, Call

MEMORY = """---
name: ferry-times
description: When the ferry to Lindholm leaves, and from which pier
metadata:
  type: reference
---

The ferry to Lindholm leaves at six, from pier nine. See [[harbour]].
"""
INDEX = "- [Ferry times](ferry-times.md) — to Lindholm, pier nine\n"


def test_what_the_client_wrote_comes_in_as_it_wrote_it(tmp_path: Path) -> None:
    project = tmp_path / "project"
    memory = tmp_path / "claude-home" / ".claude" / "projects" / slug(str(project.resolve())) / "memory"
    calls = [
        Call("Write", {"file_path": str(memory / "ferry-times.md"), "content": MEMORY}, "toolu_1"),
        Call("Write", {"file_path": str(memory / "MEMORY.md"), "content": INDEX}, "toolu_2"),
    ]
    with AnthropicServer([calls, "Noted."]) as server:
        client = make_client(tmp_path, server.url, CLAUDE_CODE_DISABLE_AUTO_MEMORY="0")
        turn = client("Remember the ferry", "--allowedTools", "Write", "--permission-mode", "acceptEdits")
    assert (turn.code, turn.out, server.problems) == (0, "Noted.", [])
    written = read_tree(memory)
    fields = parse_fields(written["ferry-times.md"].decode())
    assert fields.kind == "reference" and not fields.problem
    cli = Cli(tmp_path, CLAUDE_CONFIG_DIR=str(tmp_path / "claude-home" / ".claude"))
    told = cli("import", str(client.cwd), "--json").json
    assert (told["format"], told["counts"]["new"]) == ("claude-code", 1)
    assert cli("import", str(client.cwd), "--apply").code == 0
    assert read_tree(cli.memory) == written
    (row,) = cli("list", "--json").json
    assert not fields.modified or row["modified"][:16] == fields.modified[:16]
    assert cli("import", str(client.cwd), "--apply", "--json").json["counts"]["same"] == 1
