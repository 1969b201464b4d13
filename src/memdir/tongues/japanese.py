"""Japanese relative dates as a table; 今日, 明日, 昨日, 今年 and 去年 stand in the Chinese one and are read for both.

A count of days is taken from now only where it does not hang on something: リリースの3日後 counts from the release.
"""

from memdir.tongues.grammar import Tongue, What, count_words, periods, split

_START = r"(?:^|(?<=[\s、。；：！？（(「はがもをでに]))"
_TAIL = "(?![大版画劇番])"

JAPANESE = Tongue(
    forms=(
        ("明後日", What.DAY, 2),
        ("一昨日", What.DAY, -2),
        ("(?<!日)本日(?!本)", What.DAY, 0),
        ("今夜", What.DAY, 0, "夜"),
        ("昨夜", What.DAY, -1, "夜"),
        ("今朝", What.DAY, 0, "朝"),
        ("(?<!再)来週の?{W}曜日?", What.IN_WEEK, 1),
        ("今週の?{W}曜日?", What.IN_WEEK, 0),
        ("先週の?{W}曜日?", What.IN_WEEK, -1),
        ("次の{W}曜日?", What.COMING, 0),
        ("(?<![毎隔週第0-9０-９一二三四各の]){W}曜日?" + _TAIL, What.WEEKDAY, 0),
        (_START + "{N} ?日後", What.DAYS, 1),
        (_START + "{N} ?週間後", What.WEEKS, 1),
        (_START + "{N} ?[かカヶケ箇]月後", What.MONTHS, 1),
        (_START + "{N} ?年後", What.YEARS, 1),
        (_START + "{N} ?日前", What.DAYS, -1),
        (_START + "{N} ?週間前", What.WEEKS, -1),
        (_START + "{N} ?[かカヶケ箇]月前", What.MONTHS, -1),
        (_START + "{N} ?年前", What.YEARS, -1),
        ("今月(?:の?末|の終わり)", What.MONTH_END, 0),
        ("(?<!再)来月(?:の?末|の終わり)", What.MONTH_END, 1),
        ("今四半期(?:の?末|の終わり)", What.QUARTER_END, 0),
        ("次の?四半期(?:の?末|の終わり)", What.QUARTER_END, 1),
        ("今年(?:の?末|の終わり|の年末)", What.YEAR_END, 0),
        ("(?<!再)来年(?:の?末|の終わり|の年末)", What.YEAR_END, 1),
        ("再来週(?!末)", What.WEEK, 2),
        ("再来月(?!末)", What.MONTH, 2),
        ("再来年(?!末)", What.YEAR, 2),
        *periods(1, week="来週(?!末)", month="来月", quarter="次の四半期", year="来年(?!度)"),
        *periods(-1, week="先週(?!末)", month="先月", quarter="前四半期", year="昨年(?!度)"),
        *periods(0, week="今週(?!末)", month="今月", quarter="今四半期", year="(?!)"),
    ),
    weekdays=("月", "火", "水", "木", "金", "土", "日"),
    numbers=count_words("一 二 三 四 五 六 七 八 九 十 十一 十二"),
    stems=split("日,夜,朝,週,曜,月,年,四半期"),
    habit="毎週|隔週|定例|ごとに|いつも",
    week="{}の週",
    year="{}年",
    spaced=False,
)
