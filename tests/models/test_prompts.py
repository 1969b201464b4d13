import pytest

from memdir.errors import FormatError
from memdir.models.prompts import fill, render_prompt


def test_every_slot_is_filled_once_and_what_fills_it_is_not_looked_at_again() -> None:
    assert fill("{{a}} and {{b}} and {{a}}", {"a": "{{b}}", "b": "x"}) == "{{b}} and x and {{b}}"
    assert fill('{"json": {}} { {x} }', {}) == '{"json": {}} { {x} }'


def test_a_slot_too_few_and_a_value_too_many_are_errors() -> None:
    with pytest.raises(FormatError, match="is not filled") as caught:
        fill("{{a}} {{b}}", {"a": ""})
    assert caught.value.field == "b"
    with pytest.raises(FormatError, match="does not exist"):
        fill("{{a}}", {"a": "", "c": ""})


def test_prompts_are_files_without_their_last_line_end() -> None:
    assert render_prompt("select_tools", tools="Bash, Edit") == "Tools in use: Bash, Edit"
    with pytest.raises(FormatError):
        render_prompt("select_tools")
