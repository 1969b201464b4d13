"""Chinese relative dates as a table, simplified and traditional; also what Japanese writes the same way.

There are no spaces to find words by, so each pattern carries the neighbours that make it another word: 说明天数 holds
明天, 版本周期 holds 本周, 线上周会 holds 上周. "N days later" counts only where a clause begins or a marker stands
before, since 上线三天后 counts from the launch and not from now; a noun that is no event (接口) is such a marker.
"""

from memdir.language.grammar import DateForm, DateLanguage, count_words, periods, split_forms

# Things that nothing can be counted from.
_THINGS = "接口|系统|系統|平台|平臺|页面|頁面|合同|合約|证书|證書|账号|帐号|帳號|域名|網域|版本"
_START = rf"(?:^|(?<=[\s，。；：、！？（(「我们們他她在将將于於会會要是从從自到至就已])|(?<={_THINGS}))"
_DAY = "(?<=[今明昨前]天)"  # 明天后天 is tomorrow and the day after
_NOT_UP = f"(?:{_DAY}|(?<![线線晚早以天马馬网網路身桌地头頭手海陆陸楼樓山床墙牆纸紙板车車船桥橋之每下上]))"
_DAY_AFTER = f"(?:{_DAY}|(?<![以今之然最天先]))"
_NOT_THIS = "(?<![基日版成样樣文脚腳原标標课課书書])"
_NOT_BRIGHT = "(?<![说說声聲表证證文透清光])"
_WEEK = "(?:周|週|个?星期|個星期|个?礼拜|個禮拜)"
_NOT_COUNTED = "(?<![每逢第隔上下本这這两兩几幾数數半整双雙单單一二三四五六七八九十0-9个個色絡络])"
_NO_WEEK = "(?![期年边邊围圍末转轉刊报報全密到知遭岁歲])"
_TIMES = "(?![次天个個种種条條点點项項篇遍])"

CHINESE = DateLanguage(
    forms=(
        ("(?<![以今之然最])大[后後]天", DateForm.DAY, 3),
        (_DAY_AFTER + "[后後]天(?![天性习習培因环環努])", DateForm.DAY, 2),
        ("(?<![以之目当當提从從])前天(?!天)", DateForm.DAY, -2),
        ("(?<!如)今(?:天(?![头頭])|日(?![头頭性的子本]))", DateForm.DAY, 0),
        (_NOT_BRIGHT + "明[天日](?![数數方香葉叶奈美])", DateForm.DAY, 1),
        ("昨[天日]", DateForm.DAY, -1),
        ("今[晚晩]", DateForm.DAY, 0, "晚"),
        ("明晚", DateForm.DAY, 1, "晚"),
        ("昨[晚晩]", DateForm.DAY, -1, "晚"),
        (_NOT_UP + "下" + _WEEK + "{W}" + _TIMES, DateForm.IN_WEEK, 1),
        (_NOT_UP + "上" + _WEEK + "{W}" + _TIMES, DateForm.IN_WEEK, -1),
        (_NOT_THIS + "(?:本|这|這)" + _WEEK + "{W}" + _TIMES, DateForm.IN_WEEK, 0),
        (_NOT_COUNTED + "(?:周|週|星期|礼拜|禮拜){W}" + _TIMES, DateForm.WEEKDAY, 0),
        (_START + "{N} ?天(?:之|以)?[后後]", DateForm.DAYS, 1),
        (_START + "{N} ?(?:周|週|个?星期|個星期)(?:之|以)?[后後]", DateForm.WEEKS, 1),
        (_START + "{N} ?[个個]月(?:之|以)?[后後]", DateForm.MONTHS, 1),
        (_START + "{N} ?年(?:之|以)?[后後]", DateForm.YEARS, 1),
        (_START + "{N} ?天(?:之|以)?前", DateForm.DAYS, -1),
        (_START + "{N} ?(?:周|週|个?星期|個星期)(?:之|以)?前", DateForm.WEEKS, -1),
        (_START + "{N} ?[个個]月(?:之|以)?前", DateForm.MONTHS, -1),
        (_START + "{N} ?年(?:之|以)?前", DateForm.YEARS, -1),
        (_NOT_THIS + "(?:本|这|這)[个個]?月(?:月?底|末)", DateForm.MONTH_END, 0),
        (_NOT_UP + "下[个個]?月(?:月?底|末)", DateForm.MONTH_END, 1),
        (_NOT_THIS + "(?:本|这|這)[个個]?季度[末底]", DateForm.QUARTER_END, 0),
        (_NOT_UP + "下[个個]?季度[末底]", DateForm.QUARTER_END, 1),
        ("今年年?底", DateForm.YEAR_END, 0),
        (_NOT_BRIGHT + "明年年?底", DateForm.YEAR_END, 1),
        *periods(
            1,
            week=_NOT_UP + "下" + _WEEK + _NO_WEEK,
            month=_NOT_UP + "下(?:[个個]月|月(?![亮光球]))",
            quarter=_NOT_UP + "下[个個]?季度",
            year=_NOT_BRIGHT + "明年(?!度)",
        ),
        *periods(
            -1,
            week=_NOT_UP + "上" + _WEEK + _NO_WEEK,
            month=_NOT_UP + "上(?:[个個]月|月(?![亮光球份]))",
            quarter=_NOT_UP + "上[个個]?季度",
            year="(?<![过過失])去年",
        ),
        *periods(
            0,
            week=_NOT_THIS + "(?:本|这|這)" + _WEEK + _NO_WEEK,
            month=_NOT_THIS + "(?:本月|[这這]个?個?月)",
            quarter=_NOT_THIS + "(?:本|这个|這個)季度",
            year="(?<!如)今年",
        ),
    ),
    weekdays=("一", "二", "三", "四", "五", "六", "[日天]"),
    numbers=count_words("一 二 三 四 五 六 七 八 九 十 十一 十二") | {"两": 2, "兩": 2},
    stems=split_forms("天,日,晚,晩,周,週,星期,拜,月,年,季度"),
    habit="每[周週]|每[个個]?星期|周会|例会|定期|總是|总是",
    week="{}那周",
    year="{}年",
    spaced=False,
)
