"""English: how to work, said after an answer; put together from slots, as `english_slots` does for what is asked for.

Each is about a sort of thing, not about the one at hand: a bare plural, the parts of any answer, a way of doing it.
"""

from memdir.language.grammar import any_of
from memdir.rules.english_slots import NOT_UNTIL, WISHED
from memdir.rules.english_words import AGENT_THINGS, DEFINITE, NORM_SUBJECT, THINGS_SAID, VERB

_MANNER = (
    r"(?:by hand|manually|directly|in place|without \w+|ever|at all|locally|on (?:main|master)|in git|twice|blindly)"
)
# Plurals without an article mean all of their kind.
_BARE = (
    r"(?!(?:the|this|that|these|those|my|your|it|its|some|two|three|an?|any|to|more|"
    r"\d+)\b)(?:[\w'-]+ ){0,2}?(?!\w+ss\b|this\b|is\b|was\b|as\b|us\b|yes\b)[\w'-]{3,}s"
)
_THINGS = rf"(?=[\w ]+s\b){AGENT_THINGS}"
# What any answer is made of.
_PARTS = any_of(
    r"""answer, conclusion, summary, tl;dr, tldr, results?, bottom line, verdict, recommendation, key points?, takeaway,
    short version, command, diff, numbers, code, point"""
)
_LIKES = (
    r"i(?:'d| would)?(?: (?:really|just|do|much|only|always))* (?:like|want|prefer|hate|love|dislike|can't stand|need)"
)
_NO_ARTICLE = r"(?!(?:the|this|that|it|my|an?)\b)"
_NOT_NOW = r"(?!.*\b(?:yet|now|today|for now|this time)\b)"
# Statements that hold unless the sentence also tells that something ails.
MANNER_NORMS = (
    rf"(?P<what>{NORM_SUBJECT} (?:is|are|gets?|do|does|must|should|may|can)(?: be)? ?(?:not|never|n't)(?: be)? "
    rf"\w+.*\b{_MANNER}\b.*)",
    rf"(?P<what>{NORM_SUBJECT} (?:is|are) [^,]{{3,40}}, (?:so )?(?:please )?(?:don't|do not|never) \w+ (?:it|them|"
    rf"those)\b.*)",
    r"(?P<what>(?:every|each) (?:single )?(?:new )?(?:change|commit|pr|fix|bug ?fix|feature|function|endpoint|release|"
    r"merge|branch|class|module|migration|ticket) (?:needs?|gets?|must have|should have|comes with|has to have)\b.+)",
    r"(?P<what>(?:the|our|house) (?:\w+ )?(?:rule|convention|policy|standard|guideline)(?: here)? (?:is|says)(?: to|:|"
    r" that)? (?!broken|wrong|missing|not\b|too\b).{4,})",
    r"(?P<what>(?:nobody|no one) (?:here|on (?:the|our) team|in this \w+|in our \w+|of us) [a-z]+s .+)",
    r"(?P<what>(?:[\w-]+ )?[\w-]+ing (?:[\w-]+ )?(?:is|isn't|is not) (?:not )?(?:what|how) (?:we|i) (?:do|work|want|"
    r"like)\b.*)",
)
MANNER = (
    rf"(?P<what>{_NOT_NOW}(?:please )?(?:don't|do not|dont) (?:use|run|call|import|install|write) {_NO_ARTICLE}"
    rf"[^,;]{{2,40}}[,;] (?:we\b|(?:please )?use {_NO_ARTICLE}[\w./-]+(?: [\w./-]+)? instead\b).*)",
    rf"(?P<what>{_NOT_NOW}(?:please )?(?:don't|do not|dont) (?:write|add|create|make|use) {_BARE} (?:with|that|"
    rf"which) .+)",
    r"(?P<what>(?:please )?(?:don't|do not|dont|stop|quit|no need to) (?:apologi[sz]|flatter|prais|lectur|rambl|"
    r"hedg|over-?explain|second[- ]guess|(?:repeat|repeating) yourself|thank(?:ing)? me)\w*\b(?! (?:for|to) (?:that|"
    r"this)\b).*)",
    rf"(?P<what>{WISHED}{NOT_UNTIL} (?!to (?:write|add|make|fix|create|do|give|tell|show|explain|help)\b).{{6,}})",
    r"(?P<what>we (?:say|use|write|call (?:it|them)|speak of|go with|have|do|take|name|want|prefer|deploy|ship|change|"
    r"test|run) (?!it\b|that\b|this\b|you\b)[^,]{2,50}?,? (?:(?:and )?(?:not|never) (?!yet|sure|really)|instead of |"
    r"rather than |or not at all).*)",
    r"(?P<what>(?:nothing|nobody|anything|everything|whatever|no one) (?:[\w-]+ ){0,4}?(?:goes|gets|comes|ships|lands|"
    r"merges|leaves) (?:\w+ ){0,3}?(?:without|unless|before|through|past|behind|via|until)\b.*)",
    r"(?P<what>(?:it(?:'s| is)(?: not|n't)|it isn't|that(?:'s| is) not|that isn't) (?:your|our|my|the agent's) (?:job|"
    r"place|task|business|call|role|decision) to .+)",
    r"(?P<what>.{3,40} (?:is|are)(?: not|n't) yours to \w+.*)",
    r"(?P<what>(?:please )?(?:don't|do not|no need to) bother (?:with |about )?\w+(?:ing)?\b.{4,})",
    r"(?P<what>(?:please )?(?:don't|do not|no need to) (?:explain|tell me|repeat|show me) (?:what|things|stuff) (?:i|"
    r"that|we)\b.+)",
    r"(?P<what>(?:please )?(?:don't|do not) (?![^,]*\b(?:the|this|that|it|them|these|my)\b)[^,]{6,60}, (?:we|"
    r"i) (?:don't|never|do not|only|already)\b.+)",
    r"(?P<what>(?:no need to|you don't need to|don't) (?:paste|show|send|print|list|write|quote|include|post|"
    r"repeat)(?: me)? (?:the )?(?:whole|full|entire|complete|every)\b.*)",
    rf"(?P<what>(?:please )?keep (?:your |all )?{AGENT_THINGS} (?:under|below|within|free of)\b.+)",
    rf"(?P<what>your (?:\w+ )?{THINGS_SAID}(?<=s) are [^,]{{3,40}}, .+)",
    rf"(?P<what>instead of \w+ing [^,]{{2,50}},? (?:please |you should |just |always |rather )*{VERB}\b.*)",
    r"(?P<what>there(?:'s| is) no (?:need|reason|point)(?: for| to| in) .{4,60}\b(?:when|if|for every|each|every|in "
    r"(?:a|an|our|tests?|code))\b.+)",
    rf"(?P<what>(?:if|when) [^,]{{3,60}},? you (?:(?:always|never|don't|do not|just|first) )*{VERB}\b.+)",
    rf"(?P<what>{VERB} (?:only )?[\w /-]{{3,40}}s only[.!]*$)",
    rf"(?P<what>{VERB} (?!the\b|it\b|this\b|that\b)[^,]{{2,30}}, we (?:don't|never|only|always|do not|have no)\b.+)",
    r"(?P<what>(?!(?:the|this|that|those|these|my|two|three|other)\b)[\w-]+(?: [\w-]+)?s first[.!]*$)",
    rf"(?P<what>(?:(?:lead|start|begin|open|end) with|put|give me|show(?: me)?|i (?:need|want|like)|"
    rf"don't bury) (?:the |your )?"
    rf"{_PARTS}\b(?: (?:first|at the (?:top|start|beginning|end)|on top|up front|before .+))?[.!]*$)",
    rf"(?P<what>(?:the )?{_PARTS} (?:(?:goes |comes |belongs )?(?:first|at the (?:top|start|beginning))|on top|"
    rf"up front)\b.*)",
    r"(?P<what>(?<=please )no (?!need|problem|worries|rush|more than)[\w-]+(?: [\w-]+){0,3}(?:, (?:nobody|we|they|"
    r"it) .+)?[.!]*$|(?<=please, )no (?!need|problem|worries|rush)[\w-]+(?: [\w-]+){0,3}[.!]*$)",
    r"(?P<what>(?!the\b|this\b|that\b|it\b|i\b|there\b|we\b|you\b|is\b|are\b|what\b|how\b)(?:[\w/-]+ ){1,4}(?:in|on|"
    r"for|at|with) (?:all|every|each|any) [\w -]{2,40}?(?:,? please\b|, not (?:only|just)\b|, always\b).*)",
    r"(?P<what>(?:less|fewer|more|shorter|smaller|longer|simpler) \w+(?: \w+)? and (?:more|less|fewer) \w+.*)",
    r"(?P<what>(?:smaller|shorter|fewer|simpler|cleaner|better|more descriptive|more meaningful) (?:[\w-]+ )?[\w-]+s,? "
    r"please[.!]*$)",
    r"(?P<what>i (?:do|write|run|merge|push|close|decide|handle|make|review|deploy|release) (?!not\b|it\b)[^,]{3,40},"
    r" (?:you (?:do|write|only|just|don't|never|may|can)|not you)\b.*)",
    rf"(?P<what>{_LIKES} (?:to see )?(?:(?:[\w-]+ ){{0,2}}?{_THINGS}(?: (?:in|for|on|without|with|over|"
    rf"to) [\w ]{{3,40}})?|my {_THINGS} \w+)[.!]*$)",
    rf"(?P<what>(?:not a fan of|tired of|sick of) (?:[\w-]+ ){{0,2}}?{_THINGS}(?: (?:in|for|on) [\w ]{{3,40}})?[.!]*$)",
    rf"(?P<what>{_BARE} in {_BARE}, (?:no|not|never) [\w -]{{3,30}}[.!]*$)",
    rf"(?P<what>(?:your |such )?(?:long |verbose )?(?!the\b){THINGS_SAID}(?: like (?:this|that|these))? (?:are|"
    rf"get) (?:way |far |much |always )*(?:too|so) \w+.*)",
    rf"(?P<what>(?!.*\b{DEFINITE}\b)(?:please )?{VERB}(?: [\w-]+){{0,4}} (?:instead of|rather than) (?:\w+ing\b|"
    rf"{_BARE}).*)",
    r"(?P<what>(?:skip|avoid|drop|no|no more|don't \w+) such [\w ]+s\b.*)",
    r"(?<![,\w] )(?P<what>no (?!need|idea|problem|way|reason|point|one|luck|change|difference|error|output|effect|"
    r"result|mention|"
    r"sign|trace|worries|longer|doubt|match|clue|answer|response|hurry|rush|thanks|test|internet|warning|data|entry|"
    r"log|matter|issue)[\w./-]+ (?:on|in|for|at|inside|during|outside|against) (?!my\b|it\b|now\b|the (?:log|console|"
    r"output|list|response)).{3,})",
)
# How an answer ends is the agent's way of working in any case: no answer has to stand before it.
ENDINGS = (
    r"(?P<what>(?:do not|don't|dont|stop|quit|no need to) (?:summari[sz](?:e|ing)|recap(?:ping)?|sum(?:ming)? up)\b"
    r"(?! (?:the|this|that|it|these|those)\b).{0,60}?\bat the end\b(?! of (?:the|this|that)\b).*)",
    r"(?P<what>no (?:more )?(?:closing |final )?(?:summar(?:y|ies)|recaps?) at the end\b(?! of (?:the|this|that)\b).*)",
)
