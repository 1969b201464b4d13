"""Relative dates: tables in six languages, and what must hold for any text. Now is a Sunday, 2026-11-15."""

import json
import tomllib
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdir.language.dates import make_absolute
from tables import table

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=timezone(timedelta(hours=1)))

ENGLISH = [
    ("The freeze starts Thursday.", "The freeze starts 2026-11-19."),
    ("freeze from Thursday", "freeze from 2026-11-19"),
    ("Merge freeze on Thursday, so hurry", "Merge freeze on 2026-11-19, so hurry"),
    ("due by Friday", "due by 2026-11-20"),
    ("due by friday", "due by 2026-11-20"),
    ("Sunday we rest", "2026-11-22 we rest"),
    ("wait until Monday because of the audit", "wait until 2026-11-16 because of the audit"),
    ("On Thursday marketing launches the page", "On 2026-11-19 marketing launches the page"),
    ("blocked since Thursday", "blocked since 2026-11-12"),
    ("down since Sunday", "down since 2026-11-08"),
    ("We met last Thursday.", "We met 2026-11-12."),
    ("last Sunday it broke", "2026-11-08 it broke"),
    ("The demo is next Thursday", "The demo is 2026-11-19"),
    ("this Thursday we cut the branch", "2026-11-19 we cut the branch"),
    ("this coming Tuesday works", "2026-11-17 works"),
    ("the outage of this past Friday", "the outage of 2026-11-13"),
    ("Thursday next week is the cut", "2026-11-19 is the cut"),
    ("ship on Friday of next week", "ship on 2026-11-20"),
    ("next week on Tuesday we move", "2026-11-17 we move"),
    ("it broke Tuesday last week", "it broke 2026-11-03"),
    ("Thursday morning we deploy", "2026-11-19 morning we deploy"),
    ("by Friday 5pm", "by 2026-11-20 5pm"),
    ("call on Monday at 10:30", "call on 2026-11-16 at 10:30"),
    ("due by Fri.", "due by 2026-11-20."),
    ("until Mon at noon", "until 2026-11-16 at noon"),
    ("next Tue we review", "2026-11-17 we review"),
    ("**Deadline:** Thursday", "**Deadline:** 2026-11-19"),
    ("moved to Wednesday", "moved to 2026-11-18"),
    ("tomorrow at 5pm", "2026-11-16 at 5pm"),
    ("We ship tomorrow.", "We ship 2026-11-16."),
    ("Tomorrow the API goes away", "2026-11-16 the API goes away"),
    ("as of today the flag is on", "as of 2026-11-15 the flag is on"),
    ("Decided today: no GraphQL", "Decided 2026-11-15: no GraphQL"),
    ("the day after tomorrow", "2026-11-17"),
    ("The day before yesterday it worked", "2026-11-13 it worked"),
    ("yesterday's outage", "2026-11-14's outage"),
    ("maintenance tonight", "maintenance 2026-11-15"),
    ("it crashed last night", "it crashed 2026-11-14"),
    ("fixed this morning", "fixed 2026-11-15 morning"),
    ("the migration starts in two weeks", "the migration starts on 2026-11-29"),
    ("In 10 days the certificate expires", "2026-11-25 the certificate expires"),
    ("in a week", "2026-11-22"),
    ("Launch: in two weeks", "Launch: 2026-11-29"),
    ("in two weeks' time", "2026-11-29"),
    ("in two months", "2027-01"),
    ("the contract ends in 3 years", "the contract ends in 2029"),
    ("it was approved 3 days ago", "it was approved on 2026-11-12"),
    ("Two weeks ago we switched", "2026-11-01 we switched"),
    ("the numbers from 3 days ago", "the numbers from 2026-11-12"),
    ("the rewrite began four months ago", "the rewrite began in 2026-07"),
    ("a week ago", "2026-11-08"),
    ("a year ago", "2025"),
    ("five days from now", "2026-11-20"),
    ("We ship next week", "We ship the week of 2026-11-16"),
    ("Next week is release week", "The week of 2026-11-16 is release week"),
    ("during this week", "during the week of 2026-11-09"),
    ("it landed last week", "it landed the week of 2026-11-02"),
    ("start of next week", "start of the week of 2026-11-16"),
    ("We ship next month", "We ship in 2026-12"),
    ("by next month", "by 2026-12"),
    ("Next month is hectic", "2026-12 is hectic"),
    ("as of last month", "as of 2026-10"),
    ("last month's bill", "2026-10's bill"),
    ("the budget for next year", "the budget for 2027"),
    ("This year we stay on 4.2", "2026 we stay on 4.2"),
    ("we move in March next year", "we move in March 2027"),
    ("Q1 next year", "Q1 2027"),
    ("hired last year", "hired in 2025"),
    ("planned for next quarter", "planned for 2027-Q1"),
    ("by the end of the week", "by 2026-11-20"),
    ("at the end of next week", "2026-11-20"),
    ("before the end of the month", "before 2026-11-30"),
    ("until the end of next month", "until 2026-12-31"),
    ("by end of quarter", "by 2026-12-31"),
    ("by the end of next quarter", "by 2027-03-31"),
    ("by end of year", "by 2026-12-31"),
    ("frozen until the end of next year", "frozen until 2027-12-31"),
    ("tomorrow (Monday) we start", "2026-11-16 (Monday) we start"),
    ("- Thursday: freeze\n- Friday: thaw", "- 2026-11-19: freeze\n- 2026-11-20: thaw"),
    ("a week from Thursday", "a week from 2026-11-19"),
    ("mid next month", "mid 2026-12"),
    ("late next week", "late the week of 2026-11-16"),
    ("starting next month, pnpm only", "starting 2026-12, pnpm only"),
]

GERMAN = [
    ("Wir liefern morgen.", "Wir liefern am 2026-11-16."),
    ("ab morgen gilt der Freeze", "ab 2026-11-16 gilt der Freeze"),
    ("bis übermorgen", "bis 2026-11-17"),
    ("Heute entschieden: kein GraphQL", "2026-11-15 entschieden: kein GraphQL"),
    ("seit gestern kaputt", "seit 2026-11-14 kaputt"),
    ("vorgestern ging es noch", "2026-11-13 ging es noch"),
    ("Freeze ab Donnerstag", "Freeze ab 2026-11-19"),
    ("am Donnerstag um 17 Uhr", "am 2026-11-19 um 17 Uhr"),
    ("bis nächsten Montag fertig", "bis 2026-11-16 fertig"),
    ("letzten Freitag fiel der Server aus", "2026-11-13 fiel der Server aus"),
    ("seit Donnerstag gesperrt", "seit 2026-11-12 gesperrt"),
    ("Frist: Freitag", "Frist: 2026-11-20"),
    ("in zwei Wochen beginnt der Umzug", "2026-11-29 beginnt der Umzug"),
    ("In 3 Tagen läuft es ab", "2026-11-18 läuft es ab"),
    ("vor drei Tagen entschieden", "2026-11-12 entschieden"),
    ("vor einem Jahr", "2025"),
    ("Start in zwei Monaten", "Start in 2027-01"),
    ("nächste Woche wird migriert", "Woche vom 2026-11-16 wird migriert"),
    ("bis nächste Woche", "bis Woche vom 2026-11-16"),
    ("letzte Woche beschlossen", "Woche vom 2026-11-02 beschlossen"),
    ("im nächsten Monat", "2026-12"),
    ("nächstes Jahr ziehen wir um", "2027 ziehen wir um"),
    ("Mitte nächsten Jahres", "Mitte 2027"),
    ("bis Ende der Woche", "bis 2026-11-20"),
    ("bis Ende des Monats", "bis 2026-11-30"),
    ("bis Jahresende", "bis 2026-12-31"),
    ("heute Abend wird deployt", "2026-11-15 Abend wird deployt"),
    ("Dienstag nächster Woche", "2026-11-17"),
]

FRENCH = [
    ("On livre demain à 17h.", "On livre le 2026-11-16 à 17h."),
    ("Demain, on gèle", "2026-11-16, on gèle"),
    ("à partir de demain", "à partir de 2026-11-16"),
    ("jusqu'à lundi", "jusqu'à 2026-11-16"),
    ("gel dès jeudi", "gel dès 2026-11-19"),
    ("avant vendredi prochain", "avant 2026-11-20"),
    ("jeudi dernier, tout marchait", "2026-11-12, tout marchait"),
    ("on livre ce jeudi", "on livre le 2026-11-19"),
    ("bloqué depuis jeudi", "bloqué depuis 2026-11-12"),
    ("décidé aujourd'hui", "décidé le 2026-11-15"),
    ("nous avons livré hier", "nous avons livré le 2026-11-14"),
    ("avant-hier c'était bon", "2026-11-13 c'était bon"),
    ("après-demain matin", "2026-11-17 matin"),
    ("la migration commence dans deux semaines", "la migration commence le 2026-11-29"),
    ("il y a trois jours", "2026-11-12"),
    ("dans 3 mois", "2027-02"),
    ("la semaine prochaine", "la semaine du 2026-11-16"),
    ("avant la semaine prochaine", "avant la semaine du 2026-11-16"),
    ("livré la semaine dernière", "livré la semaine du 2026-11-02"),
    ("nous migrons le mois prochain", "nous migrons en 2026-12"),
    ("jusqu'à l'année prochaine", "jusqu'à 2027"),
    ("avant la fin du mois", "avant 2026-11-30"),
    ("livré à la fin de la semaine", "livré le 2026-11-20"),
    ("Échéance : lundi", "Échéance : 2026-11-16"),
]

SPANISH = [
    ("Entregamos mañana.", "Entregamos el 2026-11-16."),
    ("a partir de mañana", "a partir de 2026-11-16"),
    ("Antes de mañana", "Antes de 2026-11-16"),
    ("mañana por la mañana", "2026-11-16 por la mañana"),
    ("pasado mañana se congela", "2026-11-17 se congela"),
    ("decidido hoy", "decidido el 2026-11-15"),
    ("falló ayer a las 5", "falló el 2026-11-14 a las 5"),
    ("hasta el jueves", "hasta el 2026-11-19"),
    ("antes del viernes", "antes del 2026-11-20"),
    ("Congelación desde el jueves", "Congelación desde el 2026-11-19"),
    ("el próximo martes", "el 2026-11-17"),
    ("cortamos el jueves que viene", "cortamos el 2026-11-19"),
    ("cayó el viernes pasado", "cayó el 2026-11-13"),
    ("empieza dentro de dos semanas", "empieza el 2026-11-29"),
    ("aprobado hace tres días", "aprobado el 2026-11-12"),
    ("hace dos meses", "2026-09"),
    ("la semana que viene", "la semana del 2026-11-16"),
    ("para el próximo mes", "para 2026-12"),
    ("nos mudamos el año que viene", "nos mudamos en 2027"),
    ("antes de fin de mes", "antes de 2026-11-30"),
    ("cerramos al final del trimestre", "cerramos el 2026-12-31"),
]

CHINESE = [
    ("明天发布", "2026-11-16发布"),
    ("明天5点上线", "2026-11-16 5点上线"),
    ("明天下午5点上线", "2026-11-16下午5点上线"),
    ("截至今天", "截至2026-11-15"),
    ("昨天决定不用GraphQL", "2026-11-14决定不用GraphQL"),
    ("后天冻结", "2026-11-17冻结"),
    ("前天还正常", "2026-11-13还正常"),
    ("从周四开始冻结", "从2026-11-19开始冻结"),
    ("星期五之前完成", "2026-11-20之前完成"),
    ("下周四发布", "2026-11-19发布"),
    ("上周五出错", "2026-11-06出错"),
    ("下周开始迁移", "2026-11-16那周开始迁移"),
    ("三天后到期", "2026-11-18到期"),
    ("两周后上线", "2026-11-29上线"),
    ("我们3天前决定", "我们2026-11-12决定"),
    ("下个月交付", "2026-12交付"),
    ("明年搬迁", "2027年搬迁"),
    ("本月底之前", "2026-11-30之前"),
    ("今晚维护", "2026-11-15晚维护"),
    ("明天后天都休息", "2026-11-16 2026-11-17都休息"),
]

JAPANESE = [
    ("明日リリースする", "2026-11-16リリースする"),
    ("今日から凍結", "2026-11-15から凍結"),
    ("昨日決めた", "2026-11-14決めた"),
    ("明後日まで", "2026-11-17まで"),
    ("木曜日までに終える", "2026-11-19までに終える"),
    ("金曜に締め切り", "2026-11-20に締め切り"),
    ("来週の木曜日に出す", "2026-11-19に出す"),
    ("先週の金曜に壊れた", "2026-11-06に壊れた"),
    ("来週移行する", "2026-11-16の週移行する"),
    ("3日後に失効", "2026-11-18に失効"),
    ("移行は2週間後に始まる", "移行は2026-11-29に始まる"),
    ("三日前に決定", "2026-11-12に決定"),
    ("来月納品", "2026-12納品"),
    ("来年引っ越す", "2027年引っ越す"),
    ("今月末まで", "2026-11-30まで"),
    ("2か月後に終了", "2027-01に終了"),
]

POSITIVE = [*ENGLISH, *GERMAN, *FRENCH, *SPANISH, *CHINESE, *JAPANESE]

LEFT_ALONE = [
    # habits
    "every Thursday we deploy",
    "The standup is on Thursdays",
    "Mondays are quiet",
    "each Friday at noon",
    "releases go out weekly on Friday",
    "the weekly sync is on Friday",
    "Friday afternoons are free",
    "no Friday deploys",
    "avoid Friday deploys",
    "our Thursday standup",
    "the Thursday meeting",
    "every other Tuesday",
    "the first Monday of the month",
    "the last Thursday of March",
    "usually on Friday",
    "open Monday to Friday",
    "on call Monday–Friday",
    "between Monday and Friday",
    "on Friday every week",
    "any Thursday will do",
    "The Monday after next",
    "We agreed on Tuesday that it waits",
    "the 2 weeks ago deploy",
    # names
    "Black Friday traffic",
    "Good Friday is off",
    "Casual Friday rules",
    "Cyber Monday load test",
    "Patch Tuesday breaks the runner",
    "a ferry to Friday Harbor",
    "No-meeting Wednesday is sacred",
    "read This Week in Rust",
    "USA Today wrote about it",
    # not dates
    "nowadays we use pnpm",
    "the day the cache died",
    "today's users expect dark mode",
    "the technology of tomorrow",
    "as if there were no tomorrow",
    "over the last week it was slow",
    "in the next month or two",
    "the last week of March",
    "at the end of the day",
    "this weekend",
    "he sat in the sun",
    "Sun hardware and Mon agents",
    "built in two days",
    "23 files lost in one day",
    "twice in three weeks",
    "about 3 days ago",
    "more than two weeks ago",
    "two or three days ago",
    "in 2-3 weeks",
    "1.5 years ago",
    "within two weeks",
    "every 3 days",
    "for two weeks",
    "end of week 12",
    "Thursday's child",
    # absolute already
    "Thursday 2026-11-19",
    "Thursday, March 5",
    "Thursday the 5th",
    "Thursday (2026-11-19)",
    "2026-11-19 (Thursday)",
    "on 19 November, Thursday",
    "tomorrow (2026-11-16)",
    "the week of 2026-11-16",
    # not prose
    "run `date -d tomorrow` first",
    "```\nnext Thursday\n```",
    "~~~ text\ntomorrow\n~~~\n",
    "see https://example.com/today?x=tomorrow",
    "logs/today/run.txt and C:\\yesterday\\x",
    "notes-tomorrow.md and today.md",
    "the `--since yesterday` flag, or --today",
    'the button says "next Thursday"',
    "he wrote “see you tomorrow”",
    "[[thursday plan]] and [plan](next week.md)",
    "call today() or $today",
    "last_week and nextWeek",
    "  next\nweek",
    "- next\n  week",
    "we ship next\nweek, then rest",
    # German
    "jeden Montag",
    "montags und freitags",
    "Guten Morgen",
    "am Morgen",
    "Morgen ist ein schönes Wort",
    "morgens früh",
    "von heute auf morgen",
    "Montag bis Freitag",
    "Donnerstag, den 5. März",
    "immer am Freitag",
    "Karfreitag und Rosenmontag",
    "hier steht der Grund",
    "innerhalb von zwei Wochen",
    # French
    "le lundi, on déploie",
    "tous les lundis",
    "chaque jeudi",
    "jeudi 5 mars",
    "en mars",
    "du lundi au vendredi",
    "Vendredi saint et Mardi gras",
    "les jeunes d'aujourd'hui",
    "depuis 3 jours",
    # Spanish
    "los jueves",
    "cada lunes",
    "por la mañana",
    "las 8 de la mañana",
    "de lunes a viernes",
    "Viernes Santo",
    "el jueves 5 de marzo",
    "el fin de semana",
    "hoy en día",
    "Santo Domingo",
    "desde hace tres días",
    # Chinese
    "每周四开会",
    "一周一次",
    "两周四次",
    "说明天数",
    "版本周期很短",
    "线上周会",
    "上线3天后失败",
    "周一至周五",
    "11月19日（周四）",
    "黑色星期五",
    "以后天天测试",
    "过去年份",
    # Japanese
    "毎週木曜日",
    "月曜から金曜まで",
    "第2木曜日",
    "リリースの3日後",
    "11月19日(木曜日)",
    "日曜大工",
    "今週末",
]

DATA = Path(__file__).parents[1] / "data"
SENTENCES = tomllib.loads((DATA / "dates.toml").read_text(encoding="utf-8"))["rows"]
OTHERS = [json.loads(line) for line in (DATA / "dates_other.jsonl").read_text(encoding="utf-8").splitlines()]

WORDS = [
    *"every each the a on by in of at weekly Thursday Monday Fri tomorrow today yesterday ago next last this".split(),
    *"week month year end two 3 days weeks and or to 2026-11-19 March since from we is was 's week. \" ' `".split(),
    *"( ) , . : ".split(),
    *"morgen Montag nächste Woche heute vor zwei Tagen bis demain lundi le prochain hier dans jours la semaine".split(),
    *"prochaine mañana el jueves hoy hace días que viene 明天 周四 下周 3天后 今日 来週 木曜日 の".split(),
    "\n",
]
PLAIN = [*"parser cache deploy branch the of and with 42 2026-11-19 Fehler données prueba 测试 型 , .".split(), "\n"]


@table("row", [*SENTENCES, *OTHERS])
def test_one_occasion_becomes_a_date_and_a_habit_does_not(row: dict[str, Any]) -> None:
    said = datetime.fromisoformat(row.get("said", "2026-11-18T10:00:00+01:00"))
    _, replaced = make_absolute(row["text"], said.astimezone(ZoneInfo(row["tz"])) if "tz" in row else said)
    found = [(one.was, one.now_text) for one in replaced]
    assert len(found) == len(row["expect"]), found
    for (was, now), (phrase, day) in zip(found, row["expect"], strict=True):
        assert (was.lower() in phrase.lower() or phrase.lower() in was.lower()) and day in now, found


@table("text expected", POSITIVE)
def test_a_relative_date_becomes_absolute(text: str, expected: str) -> None:
    found, replaced = make_absolute(text, NOW)
    assert found == expected
    assert replaced


@table("text expected", POSITIVE)
def test_a_second_run_changes_nothing(text: str, expected: str) -> None:
    assert make_absolute(expected, NOW) == (expected, ())


@table("text", LEFT_ALONE)
def test_what_is_no_relative_date_is_left_alone(text: str) -> None:
    assert make_absolute(text, NOW) == (text, ())


@table("table", [ENGLISH, GERMAN, FRENCH, SPANISH, CHINESE, JAPANESE, POSITIVE])
def test_a_long_text_is_read_as_its_paragraphs_are(table: list[tuple[str, str]]) -> None:
    whole, _ = make_absolute("\n\n".join(text for text, _ in table), NOW)
    assert whole.split("\n\n") == [expected for _, expected in table]
    lines = [(text, expected) for text, expected in table if "\n" not in text]
    whole, _ = make_absolute("\n".join(f"- {text}" for text, _ in lines), NOW)
    assert whole.split("\n") == [f"- {expected}" for _, expected in lines]


def test_the_tables_are_as_large_as_they_should_be() -> None:
    assert len(POSITIVE) >= 120
    assert len(LEFT_ALONE) >= 80


@table(
    "day text expected",
    [
        ("2026-11-19", "Thursday", "2026-11-26"),
        ("2026-11-19", "last Thursday", "2026-11-12"),
        ("2026-11-19", "this Thursday", "2026-11-26"),
        ("2026-11-18", "next Thursday", "2026-11-19"),
        ("2026-11-18", "Thursday next week", "2026-11-26"),
        ("2026-11-18", "by the end of the week", "by 2026-11-20"),
        ("2026-11-20", "by the end of the week", "by 2026-11-20"),
        ("2026-11-21", "by the end of the week", "by 2026-11-27"),
        ("2026-11-16", "this week", "the week of 2026-11-16"),
        ("2026-12-31", "tomorrow", "2027-01-01"),
        ("2028-02-28", "tomorrow", "2028-02-29"),
        ("2026-12-31", "next month", "2027-01"),
        ("2026-01-31", "last month", "2025-12"),
        ("2026-01-31", "end of next month", "2026-02-28"),
        ("2026-12-31", "end of next quarter", "2027-03-31"),
        ("2026-10-01", "last quarter", "2026-Q3"),
    ],
)
def test_the_day_it_is_read_on_counts(day: str, text: str, expected: str) -> None:
    now = datetime.fromisoformat(f"{day}T09:00:00+00:00")
    assert make_absolute(text, now)[0] == expected


def test_the_zone_of_now_decides_which_day_it_is() -> None:
    moment = datetime(2026, 11, 15, 23, 30, tzinfo=UTC)
    assert make_absolute("today", moment)[0] == "2026-11-15"
    assert make_absolute("today", moment.astimezone(timezone(timedelta(hours=9))))[0] == "2026-11-16"


def test_a_replacement_says_where_it_stood_and_what_it_was() -> None:
    text = "Freeze from Thursday, thaw in two weeks."
    found, replaced = make_absolute(text, NOW)
    assert [(one.was, one.now_text) for one in replaced] == [
        ("Thursday", "2026-11-19"),
        ("in two weeks", "on 2026-11-29"),
    ]
    assert all(text[one.start : one.end] == one.was for one in replaced)
    assert found == "Freeze from 2026-11-19, thaw on 2026-11-29."


@pytest.mark.parametrize("now", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
@table("text", [text for text, _ in POSITIVE])
def test_the_edges_of_the_calendar_raise_nothing(text: str, now: datetime) -> None:
    make_absolute(text, now)


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=14), st.sampled_from([" ", " ", ""]))
def test_any_mix_of_date_words_is_read_once(words: list[str], between: str) -> None:
    text = between.join(words)
    once, replaced = make_absolute(text, NOW)
    assert all(text[one.start : one.end] == one.was for one in replaced)
    assert make_absolute(once, NOW)[0] == once


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_read_without_raising(text: str) -> None:
    once = make_absolute(text, NOW)[0]
    assert make_absolute(once, NOW)[0] == once


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PLAIN)))
def test_text_without_date_words_is_unchanged(words: list[str]) -> None:
    text = " ".join(words)
    assert make_absolute(text, NOW) == (text, ())
