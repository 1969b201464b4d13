"""English: "ignore memory", "don't use your memory", "answer without your memories"."""

from memdir.language.grammar import END, MEM, IgnoreLanguage, any_word_of

_ALL = any_word_of(
    "any, all, all of, any of, anything in, anything from, everything in, everything from, what's in, what is in"
)
_WHOSE = any_word_of("your, my, our, the, those, these, this, any, all")
_WHICH = r"(?:(?:own|saved|stored|past|old|previous|earlier|existing|persistent|long[- ]term|project|user|auto) )"
_FILES = any_word_of(r"memory (?:files?|directory|folder|system|index|notes|store), memory\.md, memories, memdir")
_KNOWN = (
    r"(?:what|anything|everything|whatever|all) (?:that )?you (?:have |'ve )?(?:remember|recall|memori[sz])(?:e?d)?\b"
    r"(?: about me| about this| from (?:before|earlier|last time|previous \w+|past \w+))?"
)
_THIS = any_word_of(
    """turn, question, one, answer, reply, response, task, conversation, chat, session, message, time, request,
    prompt, query, problem, thread, topic, part, round, example"""
)
# What may follow, so that "memory leaks", "memory for caching" and "memory and CPU" are not meant.
_AFTER = any_word_of(
    rf"""now, here, entirely, completely, altogether, at all, this time, today, tonight, right now,
    for (?:this|that|my next|the next|your next|the following)(?: {_THIS}|$), for (?:now|once|it|today),
    for (?:the|this) (?:rest|remainder|moment|time being|whole|entire), for a (?:moment|while|second|sec|bit|minute),
    (?:in|during|on|throughout) (?:this|your|the|our|that)(?: (?:next|whole|entire|rest of the|rest of this))? {_THIS},
    (?:when|while) (?:you )?(?:answer|reply|respond|do|work|solv|writ|think|explain)\w*, to (?:answer|reply|respond),
    and (?:just |only |simply |then )?(?:answer|reply|respond|tell|explain|start|look|read|go|give|write|solve|think),
    and (?:just |only |simply |then )?(?:do|use|work|begin|treat|pretend|act), until i, unless i, from now on,
    from here on, going forward, as if, just, thanks, thank you, ok, okay, any ?more, any longer, ever"""
)
_USE = any_word_of(
    """use, consult, check, access, load, apply, rely on, draw on, draw from, look at, look in, look into, read,
    refer to, touch, bring in, bring up, pull from, include, consider, mention, cite, search, query, recall,
    take into account"""
)
_USING = any_word_of(
    """using, consulting, checking, accessing, loading, applying, relying on, drawing on, looking at, reading,
    bringing up, recalling, surfacing, injecting, referring to, searching, citing, mentioning"""
)
_NOT = any_word_of("don't, dont, do not, never, no need to, you don't need to, you needn't, try not to")
_IGNORE = any_word_of("ignore, disregard, skip, bypass, set aside, put aside, leave aside, leave out, exclude")
_ANSWER = any_word_of("answer, reply, respond, do this, do it, solve this, try (?:this|it|again), explain")
_AS_IF = r"(?:pretend|act|answer|behave|imagine|assume)(?: as if| as though| like| that)?"

ENGLISH = IgnoreLanguage(
    cues=any_word_of(
        """ignor, disregard, skip, bypass, aside, leav, exclude, n't, dont, do not, never, no need, no memor, not ,
        no recall, off, disable, deactivat, pause, mute, keep, pretend, as if, as though, empty, without, refrain,
        avoid, stop, quit, cease, again, back on, no longer, enable, resume, reactivate"""
    ),
    owned=(
        rf"\b(?:(?:{_ALL} )?(?:{_WHOSE} )?{_WHICH}*{_FILES}|(?:{_ALL} )?your {_WHICH}*memory|"
        rf"(?:{_WHOSE} )?{_WHICH}+memory|{_KNOWN})(?![-/_\w]|\.\w)"
    ),
    bare=r"\b(?:(?:any|all|the|this|my|our) )?memory(?![-/_\w]|\.\w)",
    fill=r"\b(?:please|pls|kindly)\b,?",
    leads=any_word_of(
        r"""ok, okay, hey, hi, hello, now, just, also, and, but, so, then, first, again, actually, well, right, thanks,
        claude, can you, could you, would you, will you, i want you to, i'd like you to, i would like you to,
        i need you to, i ask you to, you should, you must, you can, you may, let's, lets, let us, this time, for now,
        for once, from now on, here, today, from here on, going forward, until i say otherwise,
        for the (?:rest|remainder) of (?:this|the|our) \w+, for (?:this|my next|the next) \w+,
        in (?:this|your|the next) \w+, make sure to, be sure to, remember to, try to, simply, instead, yes, no,
        one more thing, btw, by the way, note, important, fyi, i said"""
    ),
    cores=(
        rf"(?:{_IGNORE}|{_NOT} {_USE}) {MEM}",
        rf"(?:(?:refrain from|avoid) {_USING}|(?:(?:can|could|would|will) you )not {_USE}) {MEM}",
        rf"(?:ignoring|disregarding|not {_USING}|without {_USING}|without) {MEM}(?=[,:])",
        r"¤ (?:should|must) (?:be ignored|not be used)",
        rf"{_NOT} recall (?:anything|stuff|things)",
        rf"no (?:{MEM}|recall)(?= (?:here|this|for|in) |$)",
        rf"(?:turn|switch) (?:off (?:{MEM}|recall)|(?:{MEM}|recall) off)",
        rf"(?:disable|deactivate|pause|mute) (?:{MEM}|recall)",
        rf"(?:leave|keep|set|put) {MEM} (?:out of (?:this|it|your \w+)|aside|alone|off)",
        rf"{_AS_IF} you (?:have no|had no|have zero|don't have any|do not have any|didn't have any) {MEM}",
        rf"{_AS_IF} {MEM} (?:is|was|were) empty",
        rf"{_ANSWER}\b[^,;]{{0,60}}? without (?:{_USING} )?(?:{MEM}|recall)",
    ),
    stops=(rf"(?:stop|quit|cease) {_USING} {MEM}",),
    again=(
        rf"(?:start |resume )?us(?:e|ing) {MEM} again",
        rf"(?:stop ignoring|no longer ignore|re-?enable|unpause|reactivate|resume) (?:{MEM}|recall)",
        rf"(?:turn|switch) (?:{MEM} (?:back )?on|(?:back )?on {MEM})(?: again)?",
    ),
    free=(
        rf"\bwithout (?:{_USING} )?¤",
        rf"\b(?:and|but|so) (?:{_NOT} {_USE}|{_IGNORE}) ¤",
        rf"^(?:can|could|would|will) you\b.{{1,120}}\b(?:and|but) (?:{_NOT} {_USE}|{_IGNORE}) {MEM}",
    ),
    tail=rf"(?={END}| {_AFTER}\b)",
    lasting=any_word_of(
        r"""\bconversation\b, \bchat\b, \bsession\b, \bthread\b, \bdiscussion\b, from now on, from here on,
        going forward, rest of th, remainder of, until i\b, unless i\b, any ?more\b, any longer, henceforth,
        the whole time"""
    ),
    asks=r"\b(?:can|could|would|will) you\b|\bplease\b",
    doubts=r"\b"
    + any_word_of(
        r"""cpu, gpu, heap, ram, leaks?, alloc\w*, malloc, gc, garbage, profil\w+, usage, swap\w*, latency, throughput,
        oom, [kmg]i?b, bytes?, pointers?, benchmarks?, runtime, complexity, disk, kernel, docker, containers?, pods?,
        limits?, buffers?, stack, footprint, flamegraph, numa, rss, performance, speed, big[- ]o, i/o, bandwidth,
        column, field, metrics?, chart, graph"""
    )
    + r"\b",
)
