"""A sentence ends where it ends: not after an abbreviation, a number of a list, or the day of a date."""

from memdir.language.sentences import find_sentences, split_sentences
from tables import table


@table(
    "text sentences",
    [
        ("10. Do this. 11. Do that.", ["Do this.", "Do that."]),
        ("Prices incl. VAT are in cents. Next.", ["Prices incl. VAT are in cents.", "Next."]),
        ("We ship on 10. March to them. Ok.", ["We ship on 10. March to them.", "Ok."]),
        ("Am 10. Dezember ist Schluss. Danach nicht.", ["Am 10. Dezember ist Schluss.", "Danach nicht."]),
        ("Im 3. Quartal zzgl. Versand. Ja.", ["Im 3. Quartal zzgl. Versand.", "Ja."]),
        ("Rule 10. We do it. No. Use uv.", ["Rule 10.", "We do it.", "No.", "Use uv."]),
        ("The max. size is 10. The min. is 2.", ["The max. size is 10.", "The min. is 2."]),
        (
            "Tests, docs etc. We use uv. See No. 5, e.g. this.",
            ["Tests, docs etc.", "We use uv.", "See No. 5, e.g. this."],
        ),
    ],
)
def test_a_sentence_is_not_cut_at_an_abbreviation_or_a_number(text: str, sentences: list[str]) -> None:
    assert [text[start:end] for start, end in find_sentences(text)] == sentences
    if not text.startswith("10."):
        assert [sentence.text for sentence in split_sentences(text)] == sentences
