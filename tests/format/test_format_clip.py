"""What a session loads of an index."""

from datetime import UTC, datetime, timedelta

from memdir.format.index import clip_index, find_long_lines, measure_index
from memdir.limits import INDEX_BYTES, INDEX_LINES
from memdir.records import Header, Kind, Scope, Signature

START = datetime(2026, 1, 1, tzinfo=UTC)


def header(name: str, *, days: int = 0, kind: Kind = Kind.PROJECT, pinned: bool = False) -> Header:
    at = START + timedelta(days=days)
    return Header(name, name, "d", kind, Scope.PRIVATE, at, pinned, Signature(0, 0, 0, 0))


def lines_for(count: int, hook: str = "hook") -> str:
    return "".join(f"- [M{n}](m{n}.md) — {hook}\n" for n in range(count))


def test_a_short_index_is_loaded_as_it_is() -> None:
    text = "# T\n\n- [M0](m0.md) — hook\n"
    clip = clip_index(text, [header("m0")])
    assert clip.text == text and not clip.is_cut and clip.warning == "" and (clip.lines, clip.lines_total) == (3, 3)


def test_dead_pointers_are_left_out_and_counted() -> None:
    clip = clip_index(lines_for(3), [header("m0"), header("M2")])
    assert clip.dead == 1 and "m1" not in clip.text and clip.lines == 2 and clip.lines_total == 3
    assert clip_index(lines_for(3)).dead == 0


def test_in_file_order_it_cuts_after_200_lines() -> None:
    clip = clip_index(lines_for(250), [header(f"m{n}") for n in range(250)], order="file")
    assert clip.text == lines_for(INDEX_LINES) and clip.over_lines and not clip.over_bytes
    assert (
        "250 lines (limit 200)" in clip.warning
        and "200 of its 250" in clip.warning
        and "150 characters" in clip.warning
    )


def test_bytes_cut_at_a_line_end_and_never_inside_a_character() -> None:
    text = lines_for(150, hook="é" * 650)
    for order in ("file", "rank"):
        clip = clip_index(text, [header(f"m{n}") for n in range(150)], order=order)
        assert clip.bytes <= INDEX_BYTES and clip.over_bytes and not clip.over_lines
        assert clip.text.endswith("\n") and all(line.endswith("é") for line in clip.text.splitlines())
        assert f"{len(text.encode()):,} bytes" in clip.warning


def test_a_line_longer_than_the_limit_is_left_out_alone() -> None:
    text = f"- [Huge](huge.md) — {'x' * 30000}\n- [M0](m0.md) — small\n"
    assert clip_index(text, [header("huge"), header("m0")]).text == "- [M0](m0.md) — small\n"
    assert clip_index(text, order="file").text == ""


def test_over_the_limit_pinned_and_newest_lines_stay_in_file_order() -> None:
    headers = [header(f"m{n}", days=-n, kind=Kind.REFERENCE) for n in range(300)]
    headers[299] = header("m299", days=-299, pinned=True)
    headers[250] = header("m250", days=5)
    clip = clip_index(lines_for(300), headers)
    kept = [int(line.split("](m")[1].split(".")[0]) for line in clip.text.splitlines()]
    assert kept == sorted(kept) and len(kept) == INDEX_LINES
    assert {299, 250, *range(19)} <= set(kept)


def test_type_and_use_decide_after_the_newest() -> None:
    kinds = [Kind.REFERENCE, Kind.FEEDBACK]
    headers = [header(f"m{n}", days=-n, kind=kinds[n % 2]) for n in range(400)]
    kept = clip_index(lines_for(400), headers).text
    assert sum(f"(m{n}.md)" in kept for n in range(21, 400, 2)) == 180
    used = clip_index(lines_for(400), [header(f"m{n}", days=-n) for n in range(400)], uses={"m399": 9}).text
    assert "(m399.md)" in used


def test_prose_goes_first_and_headings_stay_where_a_line_stays() -> None:
    text = "# T\n\n" + "prose\n" * 100 + "## Kept\n\n" + lines_for(190) + "\n## Empty\n\nmore prose\n```\nfence\n```\n"
    clip = clip_index(text, [header(f"m{n}") for n in range(190)])
    kept = clip.text.splitlines()
    assert sum(line.startswith("- [") for line in kept) == 190 and "# T" in kept and "## Kept" in kept
    assert len(kept) == INDEX_LINES and "## Empty" not in kept


def test_windows_line_ends_survive_the_cut() -> None:
    text = lines_for(250).replace("\n", "\r\n")
    clip = clip_index(text, [header(f"m{n}") for n in range(250)])
    assert clip.lines == INDEX_LINES and clip.text.count("\r\n") == INDEX_LINES


def test_at_eighty_percent_the_index_reports_and_proposes() -> None:
    assert not measure_index(lines_for(159)).is_high
    full = measure_index(lines_for(160, hook="word " * 30), [header("m3", days=-3), header("m4")])
    assert full.is_high and full.share >= 0.8
    assert any("longest lines" in at for at in full.proposals) and any("m3, m4" in at for at in full.proposals)
    assert any("prose" in at for at in measure_index("text\n" * 170).proposals)


def test_long_lines_are_any_over_150_characters() -> None:
    assert [line.number for line in find_long_lines("x" * 150 + "\n" + "y" * 151 + "\n")] == [1]
