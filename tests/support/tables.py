"""A table of cases as one test that lists every failing row."""

import inspect
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from memdir.text import shorten


def table(names: str, rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a test that checks one row; `names` are its parameters, separated by spaces, the others are fixtures."""
    wanted, cases = names.split(), list(rows)

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        def run(**fixtures: Any) -> None:
            failed = []
            for row in cases:
                values = row if len(wanted) > 1 else (row,)
                try:
                    check(**fixtures, **dict(zip(wanted, values, strict=True)))
                except (Exception, pytest.fail.Exception) as error:  # a row that raises anything is a failing row
                    reason = str(error).partition("\n")[0]
                    failed.append(f"{shorten(repr(row), 500)}: {type(error).__name__} {reason}")
            if failed:
                pytest.fail(f"{len(failed)} of {len(cases)} rows fail:\n" + "\n".join(failed), pytrace=False)

        signature = inspect.signature(check)
        left = [parameter for name, parameter in signature.parameters.items() if name not in wanted]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        run.__name__, run.__doc__, run.__module__ = check.__name__, check.__doc__, check.__module__
        assert cases, f"{check.__name__} has no rows"
        return run

    return decorate


def read_rows(group: str) -> Any:
    """Read the tables of a group of tests, each under the name of its test."""
    return json.loads((Path(__file__).parents[1] / "data" / "rows" / f"{group}.json").read_text(encoding="utf-8"))
