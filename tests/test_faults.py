"""The table of faults fits the sources: else a gate is never seen red, or runs no test."""

import pytest

from faults import LOADS, MUTATIONS
from loads import ROOT


@pytest.mark.parametrize("key", MUTATIONS)
def test_what_a_mutation_takes_out_is_in_the_sources_once(key: str) -> None:
    path, old, new = MUTATIONS[key]
    text = (ROOT / "src" / "memdir" / path).read_text(encoding="utf-8")
    assert text.count(old) == 1 and old != new, path


def test_each_row_runs_tests_that_exist_and_each_mutation_has_a_row() -> None:
    assert [file for row in LOADS for file in row.files.split() if not (ROOT / "tests" / file).is_file()] == []
    assert set(MUTATIONS) <= {row.key for row in LOADS}
