"""Words that the English rules are made of."""

from memdir.language.grammar import any_of

REMEMBER = r"(?:rem[em]{1,3}ber|rember|memori[sz]e)"
LATER = any_of(
    r"""for (?:the )?(?:later sessions?|later|next time|futur\w*(?: (?:sessions?|conversations?|reference|work|
    chats?))?|future reference|all future \w+|good|the long run),
    in (?:the )?future, from (?:now|here|today) on(?:wards?)?, going forward, next time, please, pls, always, also,
    permanently, for all (?:our|my|future) \w+, across sessions, across conversations, whenever [^:,]{3,50},
    when (?:we|you) [^:,]{3,50}"""
)
THAT = r"(?:[\s,:–—-]+(?:that\b)?:?\s*)"
AGENT_THINGS = any_of(
    r"""answers?, repl(?:y|ies), responses?, messages, explanations?, summar(?:y|ies), reviews?, commit messages?,
    commits, comments?, (?:pr |pull request )?descriptions?, prs?, pull requests?, branch(?:es| names?),
    variable names?, names, tests?, unit tests?,
    integration tests?, test names?, release notes, changelog entries, docs, docstrings?, documentation, code,
    migrations?, logs?, log messages, error messages, diffs?, imports?, types?, functions?, titles?, headings,
    code examples?, examples, snippets, plans, tables, lists, bullet points, emojis?, endpoints?, new \w+, identifiers,
    user-facing text, strings, scripts, todos?"""
)
VERB = any_of(
    r"""add, answer, apologi[sz]e, append, apply, approve, ask, assume, avoid, be, begin, break, bring, build, bump,
    call,
    catch, change, check, choose, cite, clean, close, combine, comment, commit, confirm, convert, copy, create,
    default,
    delete, deploy, describe, do, document, draft, drop, edit, ensure, explain, expose, extract, favou?r, file, fix,
    follow, force[- ]push, format, generate, get, give, go, guess, handle, hardcode, hard-code, ignore, implement,
    import, include, indent, inline, install, introduce, keep, lead, leave, let, limit, link, list, log, make, mark,
    mention, merge, migrate, mock, modify, move, name, omit, open, optimi[sz]e, order, overwrite, pass, patch, pick,
    pin, ping, place, prefer, prefix, print, propose, provide, publish, push, put, quote, raise, read, rebase,
    refactor,
    refer, reformat, regenerate, reject, release, remove, rename, repeat, replace, reply, report, request, respond,
    restart, return, reuse, revert, review, rewrite, round, run, save, say, schedule, send, set, ship, shorten, show,
    sign, silence, skip, sort, speak, specify, split, squash, start, stash, state, stick, stop, store, structure, stub,
    suggest, summari[sz]e, suppress, swallow, switch, tag, take, talk, target, tell, test, throw, touch, translate,
    treat, try, turn, type, update, upgrade, use, validate, verify, wait, wrap, write, cut, double-check, flag, hold,
    notify, post, share, spare, stay, warn"""
)
# After "always" and "never" at the start of a clause: any base form, and neither a report nor an idiom.
ANY_VERB = (
    r"(?!(?:get|go|see|forget|have|want|wonder|end|seem|think|know|need|feel|find|happen|fail|crash|mind|gonna|again|"
    r"the|the same|an?|in|on|at|my|your|our|been|had|more|less|too|very|so|just|only|here|there|when|if|late|"
    r"happy|wrong|right|ready|good|nice|true|false|null|seen|heard|known|done|gone|got|knew|saw|thought|went|came|"
    r"told|gave|made|one|someone|and|or|but|as|for|with|to|this|that|it|is|was|something|look|come|stop working|"
    r"work|works|say|love|like|been)\b)(?!\w+(?:ed|ing|[^su]s)\b)[a-z][a-z-]+"
)
PAST = r"(?!\w+ed\b|been\b|had\b|got\b|was\b|were\b|did\b|saw\b|knew\b|went\b|came\b|took\b|gave\b|thought\b)"
HERE = any_of(
    r"""here, around here, in (?:this|our|the|my) (?:\w+ )?(?:project|codebase|code base|repo|repository|team|company|
    org|organi[sz]ation|product|app|shop|house|code|workspace|monorepo|service|services), at (?:our|this) \w+,
    in this team,
    for (?:us|this project|this repo), on this (?:project|team|codebase|repo), in (?:our|all) \w+"""
)
# As HERE, but never the place in the code that "here" alone may mean.
AMONG_US = any_of(
    r"""around here, (?:in|for|on|across|throughout) (?:this|our|the (?:whole|entire)|my) (?:\w+ )?(?:project|codebase|
    code base|repo|repository|team|company|org|organi[sz]ation|product|app|shop|house|code|workspace|monorepo|services?|
    department|office), with us, on our (?:side|team), at our (?:company|place|shop|office)"""
)
GENERAL = (
    r"\b(?:"
    + AMONG_US
    + "|"
    + any_of(
        r"""ever, every, each, any, anymore, all (?:our|my|the), always, never, unless, in general, generally,
    by default,
        whenever, everywhere, as a rule, at all, without (?:asking|telling|checking|my), by hand, every time,
        in (?:tests?|code|comments|docs|commit messages|prs|production|reviews|replies|answers|
        user facing \w+),
        your (?:\w+ )?(?:answers|replies|responses|messages|explanations|code|tests|commits|summaries|output|prose),
        to me, at me, with me, for me, me like, again, over and over, how we (?:do|work|name|write)\b.*, a rule,
        our rule,
        the rule, our (?:convention|policy|standard|style)\w*, team rule, rather than, only when, only if, until i"""
    )
    + r")\b"
)
THINGS_SAID = r"(?:answers?|repl(?:y|ies)|responses?|messages|explanations?|output|summaries)"
YOURS = rf"(?:your |the |all |any )?(?:\w+ )?{THINGS_SAID}"
AND_NOW = (
    r"(?!.*[,;]\s*(?:so |please |can you |could you |then )*(?:add|fix|change|update|make|remove|set|clone|"
    r"analyse|analyze|look|check|read|open|test|run|use|see|debug|investigate) (?:a|an|the|it|this|that|them|at it|"
    r"into it|why)\b)"
)
# A sentence with a verb, without "that" before it.
CLAUSE = (
    r"(?:(?!(?:when|while|if|after|before|until|where|which|who|as)\b)[\w'-]+ ){1,6}?(?:is|are|isn't|aren't|has|have|"
    r"must|should|can|can't|cannot|will|won't|may|needs?|runs?|"
    r"starts?|ends?|goes|uses?|lives?|gets?|takes?|expires?|works?|wants?|owns?|never|always|"
    r"doesn't|don't|costs?|comes?|requires?|happens?|closes?|opens?|belongs?|likes?|prefers?|hates?|speaks?)"
)
DIRECTED = (
    rf"(?:please |just |only |always |never |also )*(?:{VERB}|don't|do not|no |never|always|only|i want (?!to)|"
    rf"i'd like|i prefer|we (?!will|might|could|want|hope)|all |every |each |any |new |could you|can you|would you|"
    r"make sure|when|whenever|if you|tests?\b|commit|keep)"
)
WE_DO = any_of(
    r"""write, name, indent, log, format, keep(?! \w+ing), work with, test, deploy, commit, merge, squash, rebase,
    put, store,
    call, spell, avoid, prefer, follow, version, document, ship, lint, pin,
    wrap, throw, handle, group, sort, order, import, mock, stick to, stick with, roll forward, branch, tag, sign,
    review, split, validate, do code reviews"""
)
# What "we" do as a habit: any base form but those of having, wishing and wondering.
HABIT = (
    r"(?!(?:have|had|need|see|saw|get|got|want|think|thought|know|knew|can|could|should|would|will|may|might|must|are|"
    r"were|was|did|do|went|go|found|find|feel|love|like|hope|plan|live|met|meet|try|just|also|still|really|"
    r"all|both|already|once|recently|had|made|took|came|spent|decided|talked|ended|haven't|hadn't|didn't|weren't|"
    r"aren't|won't|can't|couldn't|and|to|were|use|used|visit|eat|cook|watch|play|travel|stay|drive|buy|sell)\b)"
    r"(?!\w+(?:ed|ing)\b)[a-z]{3,}"
)
# A base form that is in no list, where what stands before it leaves room for nothing else.
ORDER = (
    r"(?:(?:please|pls|also|always|first|just|then|only|simply|kindly) )*(?:apply|reply|rely|embed|bring|ping|ask|"
    r"answer|"
    r"don't|do not|dont|never|no|avoid|"
    r"make sure|i want|i'd like|i expect|you (?:should|must|can|need to|have to)|"
    r"(?!(?:i|it|its|it's|the|this|that|there|an?|we|he|she|they|my|our|your|you|not|nothing|something|everything|"
    r"everyone|someone|and|or|but|so|because|which|who|what|why|how|when|where|then|than|even|still|also|too|very|"
    r"all|some|any|each|every|one|two|three|only|just|maybe|probably|sometimes|usually|please|as|if|in|on|at|for|"
    r"with|from|to|by|of|after|before|is|are|was|were|has|had|did|does|can|could|will|would|should|might|may|"
    r"much|many|most|more|less|lots|thank|thanks|wow|yes|yeah|good|great|nice)\b)"
    r"(?!\w+(?:ed|ing|ly|[^su]s)\b)[a-z][a-z-]+(?= \w))\b"
)
# What makes a wish of the person's one for good.
STEADY = any_of(
    r"""always(?!-), never(?!-), ever, (?:every|each) (?:single )?time, whenever, by default, without \w+ing, unless,
    before (?:you )?(?:\w+ing|touch|change|install|delete|push|merge|add|rename|run), from now on, in (?:the )?future,
    in general, generally, anymore, at all, on your own, next time, all the time,
    (?:every|each|all|any) (?:[\w-]+ ){1,3}you (?:write|make|create|add|send|open|do|give|propose|produce|show)"""
)
# Who or what a norm may be about: neither a pronoun nor a thing of the task at hand.
NORM_SUBJECT = (
    r"(?!(?:it|its|it's|this|that|these|those|there|the|i|i'm|i've|you|he|she|they|we|my|your|his|her|what|why|how|"
    r"when|if|maybe|some|someone|everything|users?|customers?|requests|packets|people|things|errors?|calls|"
    r"crashes|jobs|pods|one|is|are|do|does|did|has|have|since|because|give|show|tell|make|write|list|companies|"
    r"everyone|nobody|please|also|just)\b)"
    r"[\w`'/.-]+(?: (?!(?:i|i'm|i've|i'd|my|me|you|to|that|which|who|and|but|is|are|was|were|been|"
    r"it)\b)[\w`'/.-]+){0,5}?"
)
# Says that something is out of order, or how it was.
AILING = (
    r"\b(?:bugs?|fail\w*|broken?|breaks?|crash\w*|errors?|wrong|missing|slow|stale|red|green|down|null|empty|"
    r"undefined|true|false|because|currently|still|now|today|tomorrow|yesterday|already|yet|was|were|had|did|"
    r"didn't|used to|seems?|maybe|probably|i think|no idea|not sure|too (?:much|many|few)|"
    r"but here|here (?:it|they|is|are)|but (?:it|they|i)|i (?:can't|don't|couldn't))\b"
)
# Says by itself that an order in the same sentence is meant for good.
FUTURE = any_of(
    r"""from (?:now|here|today) on, going forward, moving forward, in (?:the )?future,
    (?:all |our |any |my )*(?:future|later|coming|further) (?:work|sessions?|chats?|conversations?|tasks|projects|prs|
    pull requests|commits|changes),
    (?:while|when) (?:you're |you are )?working (?:on|in|with) (?:this|our|my) (?:project|repo|repository|codebase|code|
    team), as long as we work \w+, for the rest of our \w+,
    for (?:any|all) [\w-]+ (?:work|code), no matter (?:which|what|how|who|where) \w+"""
)
# Words that point at the task at hand.
DEFINITE = (
    r"(?:the|this|that(?!'s (?:our|my|how|a)\b)|it|them|these|those|here|now|my|an?(?! time)|\d+|first|second|third|"
    r"last|one(?! at a time|-))"
)
SAYING = r"(?:say|ask|write|paste|send|mention|type|share|request|tell|give|show|report|complain|push|commit)"
