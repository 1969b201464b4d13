"""Words that the English rules are made of."""

from memdir.rules.tongue import any_of

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
    treat, try, turn, type, update, upgrade, use, validate, verify, wait, wrap, write"""
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
GENERAL = (
    r"\b"
    + any_of(
        r"""ever, every, each, any, anymore, all (?:our|my|the), always, never, unless, in general, generally,
    by default,
        whenever, everywhere, as a rule, at all, without (?:asking|telling|checking|my), by hand, every time,
        anything, in (?:tests?|code|comments|docs|commit messages|prs|production|reviews|replies|answers|
        user facing \w+),
        your (?:\w+ )?(?:answers|replies|responses|messages|explanations|code|tests|commits|summaries|output|prose),
        to me, at me, with me, for me, me like, again, over and over, how we (?:do|work|name|write)\b.*, a rule,
        our rule,
        the rule, our (?:convention|policy|standard|style)\w*, team rule, rather than, only when, only if, until i"""
    )
    + r"\b"
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
    r"(?:[\w'-]+ ){1,6}?(?:is|are|isn't|aren't|has|have|must|should|can|can't|cannot|will|won't|may|needs?|runs?|"
    r"starts?|ends?|goes|uses?|lives?|gets?|takes?|expires?|works?|wants?|owns?|never|always|"
    r"doesn't|don't|costs?|comes?|requires?|happens?|closes?|opens?|belongs?|likes?|prefers?|hates?|speaks?)"
)
DIRECTED = (
    rf"(?:please |just |only |always |never |also )*(?:{VERB}|don't|do not|no |never|always|only|i want (?!to)|"
    rf"i'd like|i prefer|we (?!will|might|could|want|hope)|all |every |each |any |new |could you|can you|would you|"
    r"make sure|when|whenever|if you|tests?\b|commit|keep)"
)
WE_DO = any_of(
    r"""write, name, indent, log, format, keep, work with, test, deploy, commit, merge, squash, rebase, put, store,
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
