"""How heavy the heavy tests are, and where the public data lies."""

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest

ROOT = Path(__file__).resolve().parents[2]
IS_FULL = os.environ.get("MEMDIR_LOAD") == "full"
# Which tenth of a sample is played: another one each day, so that ten days play all of it.
TENTH = int(os.environ.get("MEMDIR_TENTH") or datetime.now(UTC).toordinal()) % 10

Row = TypeVar("Row")


def scaled(full: int) -> int:
    """A tenth of the full load, or all of it when scripts/faults asks."""
    return full if IS_FULL else max(full // 10, 1)


def sample(rows: Sequence[Row], kind: Callable[[Row], object]) -> list[Row]:
    """A tenth of the rows of each kind, at least one; all of them when scripts/faults asks."""
    kinds: dict[object, list[Row]] = {}
    for row in rows:
        kinds.setdefault(kind(row), []).append(row)
    return [row for at in kinds.values() for row in (at if IS_FULL else at[TENTH % len(at) :: 10])]


def bench(*parts: str) -> Path:
    """A file or folder of the public data; the test is skipped where it is absent."""
    home = Path(os.environ.get("MEMDIR_BENCH") or ROOT.parent / "shared" / "bench")
    path = home.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"bench data absent: {'/'.join(parts)}")
    return path
