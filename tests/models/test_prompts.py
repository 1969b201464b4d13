from memdir.models.prompts import fill


def test_every_slot_is_filled_once_and_what_fills_it_is_not_looked_at_again() -> None:
    assert fill("{{a}} and {{b}} and {{a}}", {"a": "{{b}}", "b": "x"}) == "{{b}} and x and {{b}}"
    assert fill('{"json": {}} { {x} }', {}) == '{"json": {}} { {x} }'
