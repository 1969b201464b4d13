"""English relative dates as a table. A weekday before a noun ("Friday deploys") is taken for a habit and left alone."""

from memdir.language.grammar import (
    BARE,
    ENDS,
    NAMED,
    OFFSETS,
    PERIODS,
    DateForm,
    DateLanguage,
    count_words,
    keep_phrase,
    periods,
    split_forms,
)

# the end of a line is the end of a clause unless the next one goes on in small letters
_STOP = r"(?:\s*\Z|[^\S\n]*\n\s*(?![a-z\s])|\s*\n[^\S\n]*\n|\s*[.,;:!?)\]…–—|*@])"
_FOLLOW = (
    rf"{_STOP}|\s*\d{{1,2}}(?::\d\d|\s?[ap]m\b|h\b)|\s+(?:(?:morning|afternoon|evening|night|noon|midnight)\b(?={_STOP}|\s+(?:at|by|we|i|I|"
    r"he|she|they|it|you|the|our|and|or|but|because|so|if|for|in|on|with|to|is|was|will)\b)|"
    r"(?:at|by|around|before|after|until|till|from|to|and|or|but|nor|we|i|I|he|she|they|it|you|the|a|an|this|that|these|those|"
    r"our|my|your|his|her|their|its|all|some|any|no|not|nobody|everyone|everybody|because|since|so|when|while|where|if|unless|"
    r"once|as|for|in|on|with|without|due|via|instead|only|is|are|was|were|will|would|shall|should|must|may|might|can|could|has|"
    r"have|had|does|did|latest|earliest|first|early|late|then|there|which|who|than|too|also|already|again|anyway|though|"
    r"although|whether|within|during|about)\b)"
)
_NOT_THAT_DAY = (
    r"\b(?:every|each|any|some|both|a|an|the|that|one|no|other|another|alternate|following|previous|same|most|all|our|my|your|his|her|"
    r"their|its|weekly|daily|biweekly|first|second|third|fourth|fifth|1st|2nd|3rd|4th|5th|last|next|this|per|ago|usually|always|"
    r"never|often|typically|normally|generally|mostly|regularly|sometimes|between|\w+-\w+|every \w+|each \w+|"
    # names
    r"black|good|casual|cyber|super|bloody|holy|ash|shrove|fat|palm|easter|maundy|whit|ruby|man|girl|giving|taco|throwback|patch|"
    r"manic|blue|freaky|focus|summer|"
    # it has happened, so it is not the coming one; which one it was cannot be told
    r"(?:agreed|decided|met|happened|broke|failed|crashed|talked|spoke|discussed|noticed|said|learned)"
    r"(?: it| this| that)?)\s+"
)

ENGLISH = DateLanguage(
    forms=(
        ("(?:[Tt]he )?[Dd]ay after tomorrow", DateForm.DAY, 2),
        ("(?:[Tt]he )?[Dd]ay before yesterday", DateForm.DAY, -2),
        ("today(?!['’]s)", DateForm.DAY, 0),  # "today's users" are the users of these years
        ("tonight", DateForm.DAY, 0),
        ("tomorrow", DateForm.DAY, 1),
        ("yesterday", DateForm.DAY, -1),
        ("last night", DateForm.DAY, -1),
        ("this morning", DateForm.DAY, 0, " in the morning"),
        ("this afternoon", DateForm.DAY, 0, " in the afternoon"),
        ("this evening", DateForm.DAY, 0, " in the evening"),
        ("{W},?(?: of)? next week", DateForm.IN_WEEK, 1),
        ("{W},?(?: of)? this week", DateForm.IN_WEEK, 0),
        ("{W},?(?: of)? last week", DateForm.IN_WEEK, -1),
        ("next week,?(?: on)? {W}", DateForm.IN_WEEK, 1),
        ("this week,?(?: on)? {W}", DateForm.IN_WEEK, 0),
        ("last week,?(?: on)? {W}", DateForm.IN_WEEK, -1),
        ("(?:[Tt]his|[Nn]ext|(?:[Tt]his |[Tt]he )?(?:[Uu]p)?[Cc]oming) {W}", DateForm.COMING, 0),
        ("(?:[Tt]his|[Nn]ext) {A}", DateForm.COMING, 0),
        ("(?:[Ll]ast|(?:[Tt]his )?[Pp]ast) {W}", DateForm.PREVIOUS, 0),
        ("last {A}", DateForm.PREVIOUS, 0),
        ("{W}", DateForm.WEEKDAY, 0),
        ("{A}", DateForm.SHORT, 0),
        ("in {N} days(?:['’] time)?", DateForm.DAYS, 1),
        ("in (?:{N}|an?) weeks?(?:['’]s? time)?", DateForm.WEEKS, 1),
        ("in (?:{N}|an?) months?(?:['’]s? time)?", DateForm.MONTHS, 1),
        ("in (?:{N}|an?) years?(?:['’]s? time)?", DateForm.YEARS, 1),
        ("(?:{N}|[Aa]) days? ago", DateForm.DAYS, -1),
        ("(?:{N}|[Aa]) weeks? ago", DateForm.WEEKS, -1),
        ("(?:{N}|[Aa]) months? ago", DateForm.MONTHS, -1),
        ("(?:{N}|[Aa]) years? ago", DateForm.YEARS, -1),
        ("{N} days? from (?:now|today)", DateForm.DAYS, 1),
        ("(?:{N}|[Aa]) weeks? from (?:now|today)", DateForm.WEEKS, 1),
        ("(?:{N}|[Aa]) months? from (?:now|today)", DateForm.MONTHS, 1),
        ("(?:[Tt]he )?[Ee]nd of (?:the |this )?week", DateForm.WEEK_END, 0),
        ("(?:[Tt]he )?[Ee]nd of next week", DateForm.WEEK_END, 1),
        ("(?:[Tt]he )?[Ee]nd of (?:the |this )?month", DateForm.MONTH_END, 0),
        ("(?:[Tt]he )?[Ee]nd of next month", DateForm.MONTH_END, 1),
        ("(?:[Tt]he )?[Ee]nd of last month", DateForm.MONTH_END, -1),
        ("(?:[Tt]he )?[Ee]nd of (?:the |this )?quarter", DateForm.QUARTER_END, 0),
        ("(?:[Tt]he )?[Ee]nd of next quarter", DateForm.QUARTER_END, 1),
        ("(?:[Tt]he )?[Ee]nd of (?:the |this )?year", DateForm.YEAR_END, 0),
        ("(?:[Tt]he )?[Ee]nd of next year", DateForm.YEAR_END, 1),
        ("(?:[Tt]he )?[Ee]nd of last year", DateForm.YEAR_END, -1),
        *periods(1, week="next week", month="next month", quarter="next quarter", year="next year"),
        *periods(-1, week="last week", month="last month", quarter="last quarter", year="last year"),
        *periods(0, week="this week", month="this month", quarter="this quarter", year="this year"),
    ),
    weekdays=("[Mm]onday", "[Tt]uesday", "[Ww]ednesday", "[Tt]hursday", "[Ff]riday", "[Ss]aturday", "[Ss]unday"),
    short=("Mon", "Tues?", "Wed", "Thu(?:rs?)?", "Fri", "Sat", "Sun"),
    numbers=count_words("one two three four five six seven eight nine ten eleven twelve"),
    stems=split_forms("day,ight,tomorrow,morning,noon,evening,mon,tue,wed,thu,fri,sat,sun,week,month,quarter,year"),
    before={
        BARE: _NOT_THAT_DAY,
        (DateForm.COMING, DateForm.PREVIOUS): r"\b(?:the|every|each|a)\s+",
        (DateForm.DAY,): r"\b(?:the|a|an|no|better|brighter|every|each|here|gone|usa|"
        r"(?<!as )(?<!end )(?<!start )(?<!rest )of)\s+",
        PERIODS: r"\b(?:the|every|each|past|a|very)\s+",
        # a time that something took, or a number that is only about right
        OFFSETS: r"(?:\b(?:done|finished|completed?|lost|built|written|wrote|implemented|fixed|solved|took|made|"
        r"doubled|halved|grew|"
        r"dropped|migrated|once|twice|times?|within|about|around|roughly|approximately|over|than|almost|nearly|least|most|"
        r"some|few|every|each|the|this|that|our|(?:[0-9]+|one|two|three|four|five|six|seven|eight|nine|ten|days?|weeks?|months?|years?)\s+"
        r"(?:or|to|and))\s+|[~≈–]\s*)",
    },
    after={
        BARE: r"['’]s\b",
        NAMED: r"\s+(?:(?:of|in)\s+(?:the|each|every|a|any|\d{4}|[A-Z])|every|each|weekly|monthly)",
        OFFSETS: r"\s+(?:of|per|straight|flat|or|that)\b",
        PERIODS: r"\s+of\b",
        ENDS: r"['’]|\s+\d",
    },
    follows={
        (DateForm.WEEKDAY, *ENDS): _FOLLOW,
        (DateForm.SHORT,): rf"{_STOP}|\s+(?:at|morning|afternoon|evening|night|noon)\b",
    },
    prepositions={
        **keep_phrase("on by until till before after from since for of to through in during around than per"),
        **keep_phrase("mid starting beginning effective"),
        "early": ("early", "early", "early in"),
        "late": ("late", "late", "late in"),
        "at": ("on", "in", "in"),
    },
    glue={"day": "", "offset": "on", "span": "in", "year": "in", "week": ""},
    opens=("on",),
    past=("since",),
    habit=r"\b(?:weekly|biweekly|bi-weekly|fortnightly|recurring|always|usually|cron|(?:every|each) week)\b",
    verbs="is|was|will|has|had|may|must|can|could|should|would|looks|brings|starts|ends",
    week="the week of {}",
)
