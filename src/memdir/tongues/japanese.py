"""Japanese relative dates as a table; 今日, 明日, 昨日, 今年 and 去年 stand in the Chinese one and are read for both.

A count of days is taken from now only where it does not hang on something: リリースの3日後 counts from the release.
"""

from memdir.language.grammar import DateForm, DateLanguage, count_words, periods, split_forms

_START = r"(?:^|(?<=[\s、。；：！？（(「はがもをでに]))"
_TAIL = "(?![大版画劇番])"

JAPANESE = DateLanguage(
    forms=(
        ("明後日", DateForm.DAY, 2),
        ("一昨日", DateForm.DAY, -2),
        ("(?<!日)本日(?!本)", DateForm.DAY, 0),
        ("今夜", DateForm.DAY, 0, "夜"),
        ("昨夜", DateForm.DAY, -1, "夜"),
        ("今朝", DateForm.DAY, 0, "朝"),
        ("(?<!再)来週の?{W}曜日?", DateForm.IN_WEEK, 1),
        ("今週の?{W}曜日?", DateForm.IN_WEEK, 0),
        ("先週の?{W}曜日?", DateForm.IN_WEEK, -1),
        ("次の{W}曜日?", DateForm.COMING, 0),
        ("(?<![毎隔週第0-9０-９一二三四各の]){W}曜日?" + _TAIL, DateForm.WEEKDAY, 0),
        (_START + "{N} ?日後", DateForm.DAYS, 1),
        (_START + "{N} ?週間後", DateForm.WEEKS, 1),
        (_START + "{N} ?[かカヶケ箇]月後", DateForm.MONTHS, 1),
        (_START + "{N} ?年後", DateForm.YEARS, 1),
        (_START + "{N} ?日前", DateForm.DAYS, -1),
        (_START + "{N} ?週間前", DateForm.WEEKS, -1),
        (_START + "{N} ?[かカヶケ箇]月前", DateForm.MONTHS, -1),
        (_START + "{N} ?年前", DateForm.YEARS, -1),
        ("今月(?:の?末|の終わり)", DateForm.MONTH_END, 0),
        ("(?<!再)来月(?:の?末|の終わり)", DateForm.MONTH_END, 1),
        ("今四半期(?:の?末|の終わり)", DateForm.QUARTER_END, 0),
        ("次の?四半期(?:の?末|の終わり)", DateForm.QUARTER_END, 1),
        ("今年(?:の?末|の終わり|の年末)", DateForm.YEAR_END, 0),
        ("(?<!再)来年(?:の?末|の終わり|の年末)", DateForm.YEAR_END, 1),
        ("再来週(?!末)", DateForm.WEEK, 2),
        ("再来月(?!末)", DateForm.MONTH, 2),
        ("再来年(?!末)", DateForm.YEAR, 2),
        *periods(1, week="来週(?!末)", month="来月", quarter="次の四半期", year="来年(?!度)"),
        *periods(-1, week="先週(?!末)", month="先月", quarter="前四半期", year="昨年(?!度)"),
        *periods(0, week="今週(?!末)", month="今月", quarter="今四半期", year="(?!)"),
    ),
    weekdays=("月", "火", "水", "木", "金", "土", "日"),
    numbers=count_words("一 二 三 四 五 六 七 八 九 十 十一 十二"),
    stems=split_forms("日,夜,朝,週,曜,月,年,四半期"),
    habit="毎週|隔週|定例|ごとに|いつも",
    week="{}の週",
    year="{}年",
    spaced=False,
)
