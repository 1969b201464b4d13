"""How heavy the heavy tests are, and where the public data lies."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
IS_FULL = os.environ.get("MEMDIR_LOAD") == "full"


def scaled(full: int) -> int:
    """A tenth of the full load, or all of it when scripts/faults asks."""
    return full if IS_FULL else max(full // 10, 1)


def bench(*parts: str) -> Path:
    """A file or folder of the public data; the test is skipped where it is absent."""
    home = Path(os.environ.get("MEMDIR_BENCH") or ROOT.parent / "shared" / "bench")
    path = home.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"bench data absent: {'/'.join(parts)}")
    return path
