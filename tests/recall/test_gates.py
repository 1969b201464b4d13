from memdir.language.requests import IgnoreReach
from memdir.limits import CONVERSATION_BYTES
from memdir.recall.pipeline import RecallSkip, find_skip
from memdir.recall.reminder import is_one_word
from memdir.store.sessions import SessionRecord, SurfacedMemory
from tables import table


@table("text", [
        "", "  ", "deploy", "deploy?!", "handle_auth", "src/app.py", "don't", "…", "🎉", "42", "部署", "测试一",
        "くださ", "OK。", "C++",
    ])  # fmt: skip
def test_one_word_is_too_little(text: str) -> None:
    assert is_one_word(text)


@table("text", [
        "deploy how", "how do we deploy", "部署流程", "怎么部署？", "部署 测试", "部署、测试", "デプロイ", "どうする",
        "nginx配置", "배포 방법", "데이터베이스", "how 部署", "a b", "วิธีการปรับใช้งาน",
    ])  # fmt: skip
def test_two_words_or_four_cjk_characters_are_enough(text: str) -> None:
    assert not is_one_word(text)


def test_each_gate_gives_its_own_reason_and_the_first_one_counts() -> None:
    text, full = "how do we deploy", SessionRecord(surfaced={"a": SurfacedMemory("", CONVERSATION_BYTES)})
    assert find_skip(text, SessionRecord()) is None
    assert find_skip(text, SessionRecord(private=True), on=False, paused=True) is RecallSkip.OFF
    assert find_skip(text, SessionRecord(private=True), paused=True) is RecallSkip.PAUSED
    assert find_skip(text, SessionRecord(private=True, ignoring=True)) is RecallSkip.PRIVATE
    assert find_skip(text, SessionRecord(ignoring=True)) is RecallSkip.IGNORE_CONVERSATION
    assert find_skip(text, SessionRecord(), ignore=IgnoreReach.CONVERSATION) is RecallSkip.IGNORE_CONVERSATION
    assert find_skip(text, SessionRecord(), ignore=IgnoreReach.TURN) is RecallSkip.IGNORE_TURN
    assert find_skip(text, SessionRecord(ignoring=True), ignore=IgnoreReach.LIFTED) is None
    assert find_skip("deploy", full) is RecallSkip.ONE_WORD
    assert find_skip(text, full) is RecallSkip.BUDGET


def test_the_list_of_reasons_is_closed_and_each_can_be_told() -> None:
    assert [skip.value for skip in RecallSkip] == [
        "off", "paused", "private", "ignore_conversation", "ignore_turn", "one_word", "budget", "empty", "nothing_fits",
    ]  # fmt: skip
    assert len({skip.words for skip in RecallSkip}) == len(RecallSkip) and all(skip.words for skip in RecallSkip)
