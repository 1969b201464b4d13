"""Sources for the tests of `memdir import`: a memory directory as another machine would have it, and archives."""

import io
import os
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

from clihelp import Cli, memory_text
from homes import write

DATA = Path(__file__).parents[1] / "data" / "import"
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
OLD = 1_600_000_000  # 2020-09-13
INDEX = """# What I know

Some words of mine.

- [Deploys](sub/deploys.md) — on Tuesdays, says the team
- [Billing bugs](billing.md) — where they are
- [Gone](gone.md) — there is no such file
"""
BILLING = memory_text(
    "Billing bugs", "Bugs of the billing service are tracked in Linear", "See Linear, project BILL.\n"
)
DEPLOYS = """---
name: deploys
description: Deploys happen on Tuesday mornings only
metadata:
  node_type: memory
  type: project  # by hand
  originSessionId: 0f0e
  modified: 2026-01-02T03:04:05Z
  mood: calm
---

We deploy on Tuesdays, see [[billing]].
"""


def make_source(folder: Path) -> Path:
    """A directory in both dialects, with a subfolder, an order of its own and an old file."""
    write(folder / "MEMORY.md", INDEX)
    write(folder / "billing.md", BILLING)
    write(folder / "sub" / "deploys.md", DEPLOYS)
    write(folder / "logs" / "2026" / "01" / "2026-01-01.md", "- a log\n")
    os.utime(folder / "billing.md", (OLD, OLD))
    return folder


def read_tree(folder: Path) -> dict[str, bytes]:
    """Every memory file and index of a directory."""
    found = (path for path in folder.rglob("*.md") if ".memdir" not in path.parts and "logs" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def sample(cli: Cli, name: str, as_name: str = "") -> str:
    """A copy of a file of tests/data/import in the home of a test."""
    target = cli.home / (as_name or name)
    if (DATA / name).is_dir():
        shutil.copytree(DATA / name, target)
    else:
        shutil.copy(DATA / name, target)
    return str(target)


def make_tar(path: Path, members: Mapping[str, bytes], *, odd: tuple[tarfile.TarInfo, ...] = ()) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        for member in odd:
            archive.addfile(member)
    return path
