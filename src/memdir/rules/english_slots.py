"""English, put together from slots: a cue, politeness, how long it holds, and what is to be done.

Where other rooms list ways of saying it, this one crosses word classes: whatever keeps ("retain", "hang on to") with
whatever names it ("this", "the fact that"), whatever orders with whatever says that it is meant for good.
"""

from memdir.language.grammar import any_of
from memdir.rules.english_words import AGENT_THINGS, ORDER, REMEMBER, STEADY, VERB

# --- word classes ---------------------------------------------------------------------------------------------------

_IT = r"(?:this|that|it|the following|these|one thing|something)"
_PLACE = any_of(
    r"""somewhere(?: safe)?, safe, down, away, aside, close, handy, at hand, forever, permanently, stored, saved,
    (?:in|into|on|to|under|at the back of) your \w+(?: memory)?, in (?:mind|memory|view|sight|stone), to memory,
    on (?:record|file), as (?:given|read), on board, to heart, with you"""
)
# Ways to keep something, as a verb: "retain", "hang on to", "burn into your memory".
KEEPS = any_of(
    rf"""{REMEMBER}, retain, internali[sz]e, (?:hang|hold) on ?to, keep track of,
    (?:take|keep|bear|have|hold|leave|store|save|put|stash|file|write|note|jot|burn|etch|engrave|carve|hammer|lock|
    commit|log|record) (?:{_IT} )?{_PLACE}, make (?:it )?(?:a )?(?:mental |permanent )?note(?: of)?"""
)
_KEEPING = any_of(
    r"""remembering, retaining, keeping(?: in mind| around)?, hanging on ?to, holding on ?to, saving, storing, noting,
    memori[sz]ing, writing down, knowing"""
)
# The time after this conversation, of a fact; FROM_NOW is said of an order.
AFTERWARDS = any_of(
    r"""for (?:later(?: on)?|next time|keeps|the (?:future|next (?:time|ones?)|long run|\w+ to come)|future \w+|
    (?:all )?
    (?:later|coming|upcoming|following) \w+|all that follows), beyond (?:this|today)[\w ]{0,15},
    (?:survive|outlive|outlast)s? (?:this|the) \w+, comes? up again, (?:use|need|have|want|find|see) (?:it|this|
    that) (?:later|again|next time)"""
)
FROM_NOW = r"(?:from (?:now|here|today) on(?:wards?)?|in (?:the )?future|next time|going forward|moving forward)"
# What comes again from task to task; a file or a row does not.
_RECURRING = any_of(
    r"""projects?, sessions?, chats?, conversations?, tasks?, answers?, repl(?:y|ies), documents?, charts?, reports?,
    summar(?:y|ies), commits?, prs?, pull requests?, languages?, releases?, changes?, reviews?, messages?, migrations?,
    quer(?:y|ies), explanations?, translations?, plots?"""
)
_ANY = r"(?:all|every|each|any)"
# Says in or after an order that it is meant for good.
FOR_GOOD = any_of(
    rf"""for good, forever, permanently, (?:now|today|here|both now) and (?:later|always|in future|tomorrow|everywhere|
    elsewhere), not (?:just|only) (?:(?:for|in|on) )?(?:this (?:one|time|file|once|pr)|here|now|today),
    once and for all,
    (?:with(?:out| no)|no) exceptions?, across the board, at all times, or not at all, (?:as|for) (?:a|an) (?:general |
    absolute )?(?:rule|principle|habit|matter of course), in general, every (?:single )?time, each time,
    (?:in|for|on|to|with) {_ANY} (?:single )?{_RECURRING},
    (?:in|for|on|to|with) {_ANY} (?:of )?(?:our|my|your|future|new) [\w-]+, in every other, in everything,
    (?:in|with|for) (?:everything|anything|whatever|{_ANY} [\w-]+) (?:that )?(?:you|we|i)\b, each and every \w+,
    all the time, whenever (?:you|we|there), whichever \w+, no matter \w+, from (?:now|here|today|this point|this day)
    (?:on(?:wards?)?|forward), going forward, in (?:the )?future, until (?:further notice|i (?:say|tell you) otherwise),
    (?:today|now) or (?:ever|later), this and (?:every|all) \w+"""
)

# --- asking to keep something ---------------------------------------------------------------------------------------

_NOT_HEAD = (
    r"(?![^:–—]{0,100}\b(?:says?|said|wrote|writes|readme|changelog|docs?|error|log|comments?|titled?|translate|story|"
    r"scene|songs?|e?mails?|function|variable|class|i'll|we'll|i will|remind me|todo|do you|did|does|can i|why|"
    r"how to|where|which|who|draft|poem|quote|line|step|print|return|don't (?:save|store|keep|note)|he|she|they|user)\b"
    r"[^:–—]{0,60}(?::|[–—]| - ))(?!what (?:is|are|do|does|did|was)\b)"
)
_IS_HEAD = r"(?=[^:–—]{5,120}(?::|[–—]| -)\s)"  # passes quickly over sentences that announce nothing
_HEAD = r"[\w' ,()/-]"
_END = r"(?:\s*:|\s*[–—]| -)\s+"
_WORTH = (
    r"(?:worth|important|good|useful|something|one|things?|points?|facts?|info\w*|details?) (?:\w+ ){0,3}?"
    rf"(?:{_KEEPING}|to (?:{KEEPS}|know|keep))"
)
# What announces a fact to be kept, and what announces a wish of the person's.
_FACT_HEAD = any_of(
    rf"""{KEEPS}, {AFTERWARDS}, {_WORTH}, note (?:to|for) (?:you|yourself|self|claude), so (?:that )?you (?:know|
    have it),
    you(?:'ll| will)? (?:should|must|need to|ought to|have to|may want to|want to) (?:know|be aware), before i forget,
    for your (?:\w+[ -])?(?:information|memory|notes|files|records), let {_IT} (?:sink in|be known|be noted|stick),
    so (?:that )?(?:it|this|that) (?:doesn't|does not|isn't|won't) (?:get |be )?(?:lost|forgotten),
    i(?:'d like| want| need) {_IT} (?:to stick|to stay|remembered|kept|noted|known|on record|on file|stored),
    add to (?:what you know|your \w+)[\w ]{{0,15}}"""
)
_WISHES = any_of(
    r"""(?:house|ground|golden|standing|general|team|our|my|basic|hard|simple|new) (?:\w+ )?(?:rules?|polic(?:y|ies)|
    conventions?|style|preferences?|principles?|requests?|wish(?:es)?|orders?|instructions?|habits?|guidelines?),
    (?:rules?|wish(?:es)?|requests?|preferences?|favou?rs?) (?:for|from|of|to) (?:you|now on|me|mine|ours|us|all|every|
    today|here|the future), (?:one|two|three|a few|some|another) (?:\w+ )?(?:rules?|wish(?:es)?|requests?|conventions?|
    preferences?|principles?), (?:the way|how) (?:i|we) (?:like|want|do|work|prefer)[\w ]{0,10},
    adopt (?:this|the following), (?:say|repeat|tell you|explain) (?:this|it|that)(?: \w+){0,2}"""
)
_WISH_HEAD = rf"(?:{_WISHES}|{FROM_NOW}|those to come)"

# "Here's something worth hanging on to — …", "this one should survive this chat: …"
ANNOUNCED_FACT = rf"{_IS_HEAD}{_NOT_HEAD}{_HEAD}{{0,70}}?\b(?:{_FACT_HEAD})\b{_HEAD}{{0,40}}?{_END}(?P<what>\S.{{7,}})"
KEPT_FACTS = (
    rf"(?:{KEEPS})(?:[ ,]+(?:please|{AFTERWARDS}|{FROM_NOW}|always|well))*(?: the fact)? that (?P<what>.{{8,}})",
    rf"(?:you can |you may |always |please |just )*(?:assume|presume)(?: (?:always|{AFTERWARDS}|"
    rf"{FROM_NOW}))* (?:that )?"
    r"(?P<what>(?:i'm|i am|i have|i use|i work|i don't|my|we're|we are|we have|our|every\w+|nobody|all)\b.{4,})",
    rf"(?:(?:you(?:'ll| will)? )?(?:want|need|have) to )?(?:know|be aware|assume|expect|understand|accept|consider|"
    rf"presume|reckon|trust|take it(?: \w+){{0,3}}?)(?:[ ,]+(?:please|{AFTERWARDS}|{FROM_NOW}|always))+[ ,]*that "
    r"(?P<what>.{8,})",
)
# Behind what is to be kept: in the same sentence, or as one of its own.
_KEEP_IT = (
    rf"(?!.*\bto know\b)(?:(?:that's|that is|this is|it's|which is) )?(?:\w+ )?{_WORTH}[\w ]{{0,20}}|you(?:'ll|"
    rf" will) (?:need|want|use|see|"
    r"meet) (?:that|this|it) (?:again|later|more than once|next time)"
)
KEPT_BEFORE = (
    rf"(?P<what>)(?:please )?(?:{REMEMBER}|note|memori[sz]e|keep in mind) the following[.!]*$",
    r"(?P<what>)(?:quick |side |a )*note to (?:self|you|yourself)[.!]*$",
    rf"(?P<what>.{{12,}}?)(?:[,;—–]| -) *(?:and |so |please |pls )*(?:{_KEEP_IT})[.! ]*$",
    rf"(?P<what>)(?:{_KEEP_IT}|(?:please )?(?:{KEEPS})(?: (?:{AFTERWARDS}|please))*)[.!]*$",
)
# "I have one wish for all these summaries: …" says what it is about; "two house rules: …" does not.
ANNOUNCED_SCOPE = (
    rf"{_IS_HEAD}{_NOT_HEAD}(?P<what>{_HEAD}{{0,40}}?\b{_WISH_HEAD} (?:for|about|on|in|when) (?!you\b|the future|today|"
    rf"later|now|all (?:of )?(?:our|my|future)\b|future|everything){_HEAD}{{3,50}}?{_END}\S.{{7,}})"
)
ANNOUNCED_WISHES = (
    rf"{_IS_HEAD}{_NOT_HEAD}{_HEAD}{{0,40}}?\b{_WISH_HEAD}\b{_HEAD}{{0,40}}?{_END}(?P<what>\S.{{7,}})",
    r"(?P<what>my (?:\w+ )?(?:preference|pref|rule|default)[\w ]{0,30}? (?:is|are|would be) (?!missing|not|wrong|null|"
    r"lost|gone|ignored|set|empty).{4,})",
    r"(?:consider|make|take|see) it (?:as )?(?:a|our|my) (?:\w+ )?(?:rule|policy|principle|habit)(?: of (?:mine|"
    r"ours))? (?:that|to) (?P<what>.{6,})",
    r"it(?:'s| is) an? (?:\w+ )?(?:rule|policy|principle|habit) of (?:mine|ours) (?P<what>(?:to|never to|not to|"
    r"that) .+)",
)

# --- orders that are meant for good ---------------------------------------------------------------------------------

_WOULD = r"(?: to|'d| would| could| can)?"
_GOOD = (
    r"(?: (?:better|easier|best|nicer|nice|great|good|helpful|lovely|clearer|ideal|me|us))?(?: (?:for|to) (?:me|us))?"
)
# Ways to wish something of the agent: "I'd rather you", "it works better for me if you", "can we agree that you".
WISHED = any_of(
    rf"""(?:i|we)(?:'d| would)?(?: (?:really|much|just|also|always|strongly))* (?:rather|prefer|like|love|appreciate|
    want|need|expect|ask)(?: it)?(?: (?:if|when|that))? you{_WOULD},
    it(?:'s| is|'d be| would be|'ll be| works| helps| would help)(?: (?:so|much|a lot|way|far|
    really))*{_GOOD}[,]? (?:if|
    when) you{_WOULD}, i(?:'d be| would be|'m) (?:glad|grateful|happy|happier|thankful) if you{_WOULD},
    (?:can|could|shall|let's|let us)(?: we)? (?:just )?(?:agree|settle on it|say|make it a rule) that (?:you|we),
    you (?:have my permission|are (?:always )?(?:free|allowed|welcome)) to"""
)
NOT_UNTIL = (
    r"(?!.*\b(?:until|till|before|while|once|as soon as) (?:i'm|i am|i've|i have|we're|tomorrow|tonight|then)\b)"
)
_ORDERED = rf"(?!thank|wow|.*\band (?:please )?{FROM_NOW}\b)(?:(?:please|pls|also|just|now|only|simply) )*{ORDER}"
_ONE = r"(?! (?:an?|me an?|some|it|this|that|them|the same)\b)"
LASTING_ORDERS = (
    rf"(?P<what>{_ORDERED}\b{_ONE}{NOT_UNTIL}(?=.*\b{FOR_GOOD}\b) .{{4,}})",
    rf"(?P<what>{_ORDERED} (?:it|this|that|them) (?:[\w-]+ ){{0,4}}?(?:for good|{FROM_NOW}|in general|everywhere)\b.*)",
    rf"(?P<what>(?<=you )not {VERB}\b .*\b(?:every|each|always|all the time|whenever|any ?more|again)\b.*)",
    r"(?P<what>(?<=you )(?:stop|quit) \w+ing\b.+\b(?:every|each|always|all the time|whenever|any ?more)\b.*)",
    rf"next time,? (?P<what>(?:please |just |also )*{ORDER} .{{4,}})",
    rf"(?P<what>(?:{FOR_GOOD}|as long as (?:i|we)[^,:]{{3,40}}|whatever (?:i|we|you) [^,:]{{2,30}}|"
    rf"no matter [^,:]{{3,40}}|as a habit)[,:] {_ORDERED}.+)",
    rf"(?P<what>when (?:you (?!are|get|see|have|can|click|finish)|(?=\w+ing\b))(?![^,]*\b(?:it|this|that|the|done|"
    rf"finished|ready|them)\b)[^,]{{5,60}}, {ORDER}.+)",
    rf"(?P<what>for (?:{_ANY} )?(?:[\w-]+ ){{1,3}}(?:that )?(?:you|we) (?:write|make|create|do|build|give|send|show|"
    rf"produce)\b[^,:]{{0,30}}[,:] {ORDER}.+)",
)
_SAID = r"(?:answers|replies|responses|messages|explanations|summaries|commits|comments|reviews|plans)"
# Orders that stand by themselves, and the person's own reason or wish before one.
SLOT_NORMS = (
    rf"(?P<what>{WISHED}{NOT_UNTIL} \w+(?=.*\b(?:{FOR_GOOD}|{STEADY})\b).{{4,}})",
    rf"(?P<what>i(?:'d like| want| need| expect| prefer| like) (?!to\b|you\b|the\b|an?\b|this\b|that\b|"
    rf"it\b)[\w' -]{{3,60}}?,? (?:{FOR_GOOD}|everywhere|always)\b.*)",
    rf"(?P<what>i (?!can\b|could\b|will\b|'ll\b|just\b)[^,.]{{4,60}}, so (?:please |always |just )*{VERB} (?!it\b|"
    rf"this\b|that\b|the\b|an?\b|me an?\b)(?:your |all |any |\w+ )?{AGENT_THINGS}\b.*)",
    r"(?P<what>(?:anything|everything|nothing|whatever|any \w+|every \w+|all \w+|no \w+)(?: [\w/-]+){1,5}? (?:goes?|"
    r"gets?|comes?|is|are|runs?|ships?|lands?|happens?|passes|leaves) .{0,40}\b(?:(?:through|via|by|past|to) (?:me|us)"
    r"\b|without (?:my|our)\b|no exceptions?\b).*)",
    rf"(?P<what>{ORDER} .{{4,80}}\bunless (?:i|we) (?:\w+ )?(?:ask|say|tell|request|want|approve)\b.*)",
    rf"(?P<what>your (?:\w+ )?{_SAID} (?:should|must|have to|need to|may) .{{4,}})",
    r"(?P<what>(?:ask|check with|tell|warn|consult|ping) me (?:first )?before (?:you )?\w+ (?!the\b|this\b|that\b|it\b|"
    r"them\b|my\b)(?:[\w-]+ ){0,3}[\w-]*(?:s|thing|new|code)\b.*)",
    rf"(?P<what>(?:only ever|never again|don't you dare|don't you ever) (?:to )?{VERB}\b .+)",
    r"(?:absolutely|strictly) (?P<what>no [\w -]{3,40}.*)",
    r"(?P<what>no [\w-]+(?: [\w-]+){0,4},? (?:ever|period|at all, ever)[.!]*$)",
    r"(?P<what>(?:commit messages?|branch names?|variable names?|pr titles?|test names?|function names?|class names?|"
    r"file names?|code comments?|log messages?|error messages?): (?!.*\b(?:is|are|was|the|error|"
    r"not found)\b)[a-z][^:\d]{6,70}$)",
    rf"(?P<what>(?:please )?make sure (?:that )?(?:every|each|all) (?:new )?{_RECURRING} (?:you \w+ )?(?:has|have|"
    rf"gets?|is|are|comes?|includes?)\b.+)",
    rf"(?P<what>(?:every|each|any) (?:[\w-]+ )?{_RECURRING} (?:that )?(?:you|we) (?:\w+ )(?:should|must|needs?|gets?|"
    rf"has to)\b.+)",
    r"(?<!, )(?<!, so )(?<!, so please )(?P<what>(?:please )?(?:stick to|use|speak|prefer|"
    r"keep to) [\w -]{3,40} with me[.!]*$)",
)
# A whole sentence that says of the one before it that it is meant for good.
_STANDS = r"(?:meant|true|valid|goes|holds|counts|applies|stands|so|binding)"
MEANT_FOR_GOOD = (
    r"(?P<what>)(?:(?:and |which |all )*(?:that|this|it|the same|same|i mean (?:that|this|it)|i mean)(?:'s| is|"
    r" was)? )?"
    rf"(?:{_STANDS} )?(?:(?:as|in|for) )?(?:(?:true|valid) )?(?:{FOR_GOOD}|(?:for |to )?(?:everything|"
    rf"all (?:\w+ )?\w+s|every \w+|any \w+))(?:,? (?:{FOR_GOOD}|all \w+|please|not \w+ \w+|and .{{2,30}}))*[.!]*$",
    r"(?P<what>)not (?:now|today|here|once)(?: and|,| or) not (?:later|ever|tomorrow|anywhere|even once)[.!]*$",
    r"(?P<what>)(?:that's|that is|this is|it's) (?:non-negotiable|not negotiable|not up for discussion|an order|a must|"
    r"mandatory|how (?:i|we) (?:like|want|do|work)\b.*|the way (?:i|we) (?:like|want|do|work)\b.*)[.!]*$",
)
