"""English: what is asked for. "Remember that", "from now on", "never push to main", "forget that"."""

from memdir.rules.english_words import (
    AGENT_THINGS,
    AMONG_US,
    ANY_VERB,
    CLAUSE,
    DIRECTED,
    FUTURE,
    LATER,
    ORDER,
    REMEMBER,
    SAYING,
    STEADY,
    THAT,
    VERB,
)

FORGETS = (
    r"you (?:don't|do not|needn't) (?:(?:need|have) to )?remember (?P<what>.+?) any ?(?:more|longer)\b",
    r"(?P<what>(?:the|my|our|that) .{3,60}?),? (?:is |are )(?:obsolete|outdated|void|history|over|no longer true|"
    r"cancelled|canceled)\b.{0,12}forget (?:it|that|about it)",
    r"unremember (?:that )?(?P<what>.+)",
    r"(?:forget|delete|erase|remove|drop|wipe) (?:what|everything|all|anything)(?: that)? (?:you (?:remember|know|"
    r"saved|stored|noted|have (?:saved|stored|noted))|i (?:said|told you|mentioned))(?: \w+)? (?:about|on|"
    r"regarding) (?P<what>.+)",
    r"(?:don't|do not) remember (?P<what>.+?) any ?(?:more|longer)\b",
    r"forget (?:my|our) (?!last|previous|earlier|question|message|request|comment|point)(?P<what>\w+.{2,40}?)(?:,|$)",
    r"(?:forget|unlearn|no longer remember|stop remembering)(?: (?:about )?(?:the fact )?that| (?:all |everything |"
    r"anything )?(?:what )?"
    r"(?:i(?:'ve| have)? (?:said|told you|mentioned|asked)|you know|you remember|you (?:have )?(?:saved|"
    r"stored))(?: \w+)? (?:about|on|regarding))"
    r" (?P<what>(?!for a\b).+)",
    r"(?:forget|drop|delete|remove|erase|scrap|discard|no longer remember|get rid of)(?!.*(?:\bline \d|\w\.(?:md|py|"
    r"js|ts|ya?ml|"
    r"json|toml|txt|go|rs|cfg|ini)\b|(?:in|from|of) (?:the|this|our) .*(?:config|file|readme|docs?|code|page|linter|"
    r"schema|function|class)\b))(?: about)? (?:the|that|my|our|this|any)"
    r"(?: \w+){0,2}? (?:rules?|notes?|memor(?:y|ies)|things?|preferences?|instructions?|conventions?|polic(?:y|ies)|"
    r"remarks?|"
    r"reminders?|guidelines?|decisions?|requirements?|facts?)(?: (?:about|on|with|that|regarding|of|for|to|"
    r"saying))?:? (?P<what>.+)",
    r"(?:remove|delete|erase|drop|take|wipe|clear|strike)(?: from (?:your |the )?memor(?:y|ies))(?: the (?:fact|note|"
    r"rule|entry))?"
    r"(?: that| what i (?:said|told you) about| about|:)? (?P<what>.+)",
    r"(?:remove|delete|erase|drop|take|wipe|clear|strike)(?: the (?:fact|note|rule|entry)(?: that|"
    r" about))? (?P<what>.+?)"
    r" (?:from|out of) (?:your |the )memor(?:y|ies)\b",
    r"you (?:can|may|should) (?:now )?forget (?:that |about |the )?(?P<what>.+)",
    r"(?:i )?(?:no longer|don't) (?:want|need) you to remember (?:that |about )?(?P<what>.+)",
    r"(?P<what>(?:the|my|our) .+?),? (?:so )?(?:please )?forget (?:it|that|about it|this)\b",
)
SAVES = (
    r"(?:(?:just )?to have it noted|you(?:'ll| will) need (?:this|that) (?:later|again)|"
    r"let it be known|note to (?:the )?future you|"
    r"for what it's worth in future \w+)(?: that\b|\s*[:,–—])\s*(?P<what>.+)",
    r"(?:save|store|keep|record)(?: the)? (?:info|information|fact|note|detail)(?: that|:) (?P<what>.+)",
    r"it(?:'s| is) (?:a|our|my|the) (?:\w+ )?(?:rule|policy|convention)(?: of (?:ours|mine)| here| in [\w ]{3,20})? "
    r"that (?P<what>.+)",
    rf"(?:{REMEMBER}|don't forget|do not forget) to (?P<what>{VERB} .+\b(?:with me|for me|in your (?:answers|replies)|"
    rf"every time|"
    r"each time|in (?:the )?future|before (?:every|each|any)|after (?:every|each)|whenever)\b.*)",
    rf"{REMEMBER}(?! (?:to|when|how|what|why|where|who|if|whether|me|us|the time|that time|that movie|your|you're|"
    rf"you are)\b)(?: this| it| the following| one thing|"
    rf" two things| three things| these(?: things)?)?(?:[\s,]+{LATER})*(?:\s+that\b|\s*[:,–—]|"
    rf"\s+-\s)\s*(?P<what>(?!you're\b|you are\b)\w.+)",
    rf"{REMEMBER}(?: {LATER})* (?!to\b)(?P<what>(?:i|i'm|im|i've|my|we|we're|our|never|always|no|not|don't|"
    rf"{CLAUSE})\b.+)",
    rf"(?:quick |side |a )*note (?:to self|to yourself|for (?:the )?(?:future|later|next time)|"
    rf"for your memory)[^:,]{{0,25}}{THAT}(?P<what>.+)",
    r"(?:make|take|keep)(?: yourself)? (?:a )?(?:mental |permanent )?note(?: for (?:later|yourself|next time|"
    r"the future))?"
    r"(?: that\b| of the fact that|:| of the following:|,) *(?P<what>.+)",
    rf"(?:note|write|jot)(?: (?:this|that|it))? down(?: {LATER})*(?: that\b|\s*[:,–—])\s*(?P<what>.+)",
    rf"(?:note|take note)(?: {LATER})+(?: that|:) (?P<what>.+)",
    rf"(?:{REMEMBER}|don't forget|do not forget)(?: {LATER})* (?:to )?(?P<what>(?:always|never|not|to never|to not)\b"
    rf"(?!.*\b(?:yet|now|today|this (?!project|repo|team)\w+)\b) .+)",
    rf"(?:{REMEMBER}|don't forget|do not forget) to (?P<what>[a-z-]+ .+\b{AMONG_US}\b.*)",
    rf"(?:always |ever )+{REMEMBER}(?:{THAT}| )(?P<what>(?!to\b|when\b|how\b|what\b).+)",
    r"(?:it(?:'s| is) |this is |something |also )*(?:worth|good|important|useful|helpful|best) (?:remembering|"
    r"to remember|keeping in mind|to keep in mind|to know (?:for|in) [\w ]{3,20})(?: that\b|\s*[:,–—])\s*(?P<what>.+)",
    r"(?:note|write|jot)(?: (?:this|that|it))? down(?: [\w ]{3,25}?)?(?: that\b|\s*[:–—])\s*(?P<what>.+)",
    r"(?:add|save|store|put|commit|write|record|log|keep|stick|file|pin)(?: (?:this|that|it|the following|a note))?"
    r"(?: down)? (?:to|in|into|under) your (?:[\w-]+ )?(?:memory|memories|notes|knowledge(?: base)?)"
    rf"(?: {LATER})*{THAT}(?P<what>.+)",
    r"(?:add|save|store|put|commit|record|keep) (?:the fact )?(?:that )?(?P<what>(?!this\b|that\b|it\b).{8,}?) (?:to|"
    r"in|"
    r"into) your (?:[\w-]+ )?(?:memory|memories|notes)\b",
    r"(?:add|save|store|put|commit|write|record)(?: (?:this|that|it|the following))?(?: down)? (?:to|in|"
    r"into) (?:your |the |my )?"
    rf"(?:long[- ]term |project |user |persistent )?memory(?: {LATER})*{THAT}(?P<what>.+)",
    rf"(?:add|save|store|create|make) (?:a|this as a|that as a) (?:new )?memory{THAT}(?P<what>.+)",
    rf"(?:save|store|record|retain)(?: (?:this|that|it))? (?:{LATER})+{THAT}(?P<what>.+)",
    r"(?:save|store|record|retain) (?:the fact )?that (?P<what>.+)",
    r"(?:one|two|three|another|some|a few|an important|a)(?: more| last| other)? (?:important )?(?:things?|facts?|"
    r"points?|notes?) (?:to|you should|"
    rf"you must|i want you to|for you to|worth) (?:{REMEMBER}(?:ing)?|know|keep in mind|note|noting|"
    rf"memori[sz]e)(?:[\s,]+{LATER})*{THAT}(?P<what>.+)",
    rf"(?:don't|do not|dont|never|not to) forget(?! to\b| about it)(?:[\s,]+{LATER})*(?:\s+that\b|"
    rf"\s*[:,–—])\s*(?P<what>\w.+)",
    rf"(?:don't|do not|dont|never) forget(?: {LATER})* (?P<what>(?:i|i'm|my|we|we're|our|{CLAUSE})\b.+)",
    rf"(?:know|be aware)(?:[\s,]+{LATER})+{THAT}(?P<what>.+)",
    r"(?:store|save|record|remember|memori[sz]e|note|learn|keep)(?: (?:this|that|it|the following|one thing))?(?: "
    r"well| forever|"
    r" please| too)?\s*: *(?P<what>\w.+)",
    r"(?:put|get|have) (?:this|that|it|the following) on (?:the )?(?:record|file|your list)\s*[:,] *(?P<what>.+)",
    rf"you (?:should|must|need to|ought to) (?:know|{REMEMBER}|be aware)(?:[\s,]+{LATER})*{THAT}(?P<what>.+)",
    rf"for (?:your |the )?(?:memory|long[- ]term memory|future reference|(?:next|later|coming) (?:times?|sessions?|"
    rf"chats?|conversations?)|future (?:sessions|"
    rf"reference|conversations|work))"
    rf"{THAT}(?P<what>(?!(?:you|we|i) [^,:]{{3,50}}[:,]).+)",
    r"(?:i )?(?:hereby )?(?:instruct|ask) you to (?:remember (?:that )?)?(?P<what>.+)",
    r"(?:keep|make|take) a (?:mental )?note of (?:this|the following|that)[:.] ?(?P<what>.+)",
    r"(?:memo|reminder|psa|fyi for (?:later|the future)|lesson learned|(?:general |my )?preference(?=[:,–—]| -)|"
    r"update (?:your )?memory|for later(?: sessions| on)?|(?:house|ground) rules?|let the record show|"
    r"for the record)"
    r"(?: (?:to self|for (?:you|later|the future|next time|future \w+)|that))?(?:[:,–—]| -)? (?P<what>\w.+)",
    r"(?:[\w' ]{0,25} )?to (?:remember|keep in mind|memori[sz]e)\b[^:.]{0,30}: (?P<what>.+)",
    r"(?:[\w' ]{0,40} )?(?:for|in) (?:all )?(?:our |my |your )?(?:future|further|later|coming) \w+\s*: (?P<what>.+)",
    rf"(?:just )?(?:so )?(?:that )?you know(?:[\s,]+{LATER})+\s*[:,–—]\s*(?P<what>.+)",
    r"(?:[\w' ]{0,40} )?for (?:the long run|later|the future|next time|(?:the )?next session|"
    r"future sessions)\s*: (?P<what>.+)",
    r"(?:add|put|save) (?:this|that|the following) to (?:what you know|your notes|your knowledge)(?: about me|"
    r" about us)?: (?P<what>.+)",
    rf"(?P<what>)(?:{REMEMBER}|keep in mind|note|from now on|for the future)[^:?]{{0,40}}:\s*$",
    rf"{REMEMBER} (?P<what>(?:the|our|my) [^:?]{{3,40}}: .+)",
    rf"{REMEMBER} (?P<what>(?:where|how|what|who|which|when) [^:?]{{3,60}}: .+)",
    r"(?:mind |keep |start )?remembering (?:that )?(?P<what>.+)",
)
WEAK = (
    r"(?:keep|bear|have)(?: (?:the following|this|that|it|these))? in mind"
    rf"(?:[\s,]+{LATER})*{THAT}(?P<what>(?!.*\b(?:while|when) (?:\w+ing|you (?:write|do|build|implement|make)) (?:this|"
    rf"that|it|the)\b).+)",
    r"note that (?P<what>(?:i|i'm|my|we|we're|our|all|every)\b .+)",
)
RULES = (
    r"(?:once and for all|my standing (?:request|order|wish|instruction))(?: that\b|\s*[:,–—])\s*(?P<what>.+)",
    r"(?:[\w' ]{0,30}\b)?(?:my|our|a|an|one|another|this|general|personal|standing|strong) (?:\w+ )?(?:preference|"
    r"pref|convention|house rule|ground rule|habit|agreement|standing order)\b[\w ',]{0,30}: (?P<what>.+)",
    r"(?:let's|let us|can we|we should|i'd like to) (?:agree|settle)(?: (?:on (?:this|that|one thing|something)|here))?"
    r"(?: that\b|\s*[:,–—])\s*(?P<what>.+)",
    r"(?:i(?:'d| would)? (?:want|like|need) to|let's|let us|we (?:have|need)|i have|here's|there's|here is|"
    r"there is)(?: \w+){0,2} (?:an? |one |the following |another )?(?:\w+ )?(?:rule|convention|policy)(?: for (?:you|"
    r"us|the future|later))?: (?P<what>.+)",
    r"(?:treat|consider|take|see) (?:this|the following|it) as (?:a |an )?(?:general |standing |permanent |"
    r"hard )?(?:rule|order|instruction|policy|convention)[:,] (?P<what>.+)",
    r"as a (?:standing|permanent) (?:rule|order|instruction|request)[:,] (?P<what>.+)",
    r"(?:new|house|team|general|hard|golden|standing|permanent|ground|our|my|one|another|a)? ?(?:rule|polic?y|"
    r"convention|standing (?:order|instruction))"
    r"(?: (?:for|from|in|number|no|around) [^:,]{1,40}| #?\d+)?: (?P<what>.+)",
    r"(?:[\w']+ ){0,7}(?:standing|permanent|lasting|long-term) (?:rule|order|instruction|request|wish|preference)s?"
    r"(?: for (?:you|the future|later))?: (?P<what>.+)",
)
# A whole sentence that points at the one before it, or after it.
BACK = (
    rf"(?P<what>)(?:(?:{REMEMBER}|keep|note|save|store|write|bear|don't forget|do not forget|take) (?:this|that|it|"
    rf"these|those|all that|something)(?: for me)?(?: in mind| down| to memory| in (?:your )?memory)?|"
    rf"(?:make|take) (?:a )?note of (?:this|that|it)|commit (?:this|that|it) to memory)(?:[ ,]+(?:please|pls|"
    rf"for .{{3,30}}|from now on|next time|always|in future|going forward|too|as well|will you|ok))*[.!?]*$",
)
LASTING_BACK = (
    r"(?P<what>)(?:and )?(?:from now on|always|every(?: single)? time|each time|in future|in the future|going forward|"
    r"by default|everywhere|ever|period|full stop|no exceptions?|for all (?:future )?\w+|without exceptions?|"
    r"for good|permanently)(?:,? (?:please|always|ok|everywhere))*[.!]*$",
    r"(?P<what>)(?:(?:and )?(?:that|this|it|the same|same) (?:applies|goes|holds|counts) (?:to|for|in|everywhere|"
    r"always|generally)\b.*|(?:that|this)(?:'s| is) (?:a|our|my) (?:general |permanent |hard |standing |"
    r"team )?(?:rule|policy|convention)\b.*)",
)
SAVED_BEFORE = (
    rf"(?P<what>.{{12,}}?)[,;.:—–-]+ *(?:and |so |please |pls |do )*(?:{REMEMBER}|keep|note|save|don't forget)"
    r"(?:(?<=remember)|(?: (?:that|this|it)))(?: in mind| down)?(?: (?:please|pls|for .{3,30}|thanks|too|as well|"
    r"ok))*[.! ]*$",
)
LASTING = (
    rf"(?P<what>(?:please )?(?!write|draft|compose|say|tell|see)(?:{VERB}|don't|"
    rf"do not)\b [^:\"]{{2,50}} (?<!and )next time\b.*)",
    rf"(?:going forward|moving forward|in (?:the )?future|for (?:the )?future)(?! (?:with|of|tense|"
    rf"versions?)\b)[\s,:–—-]+(?P<what>{DIRECTED}.+)",
    rf"(?P<what>(?:please |just )*(?!write|draft|compose|say|tell|print)(?:{VERB}|don't|do not|no|"
    rf"only)\b [^:\"]{{3,60}}? (?<!and )(?:from now on|going forward|henceforth|from here on)\b.*)",
    r"(?P<what>for (?:every|each|all|any) .{3,40},? (?:i|we) (?:want|need|expect|require) .+)",
    rf"(?P<what>by default,? (?:please )?{VERB}\b .+)",
    r"(?P<what>(?:always )?default to (?!\d|.* if ).+)",
    r"(?P<what>make (?:it )?a habit of .+)",
    r"(?P<what>(?:stick to|follow|respect) .{3,50} (?:in every|in all|everywhere|at all times|in each|for every|"
    r"for all)\b.*)",
    r"(?:it would be|it'd be|would be) (?:great|nice|good|helpful|lovely) if you (?:would |could )?(?P<what>(?:always|"
    r"never) .+)",
    r"(?:do me a favou?r and|a favou?r:) (?P<what>(?:always|never) .+)",
    r"make (?:it |this )?(?:a|your) (?:\w+ )?(?:rule|habit|policy|point|practice|default) (?:to|of|that) (?P<what>.+)",
    rf"(?P<what>(?:every(?: single)? time|whenever|each time|any ?time|if ever) (?:you|we|you're|we're)\b (?!ready|"
    rf"can\b|like\b|want|have time|are ready|feel)[^,:]{{3,80}}[,:]"
    rf" {ORDER}.+)",
    rf"(?P<what>(?:when(?:ever)?|if) i {SAYING} [^,]{{2,60}}(?:,? (?:i (?:always )?(?:mean|want|expect)|that means|"
    rf"it means)|, {ORDER}).+)",
    rf"(?P<what>for (?:all|any|every|each)(?: [\w-]+){{0,3}} (?:you|we|i)\b[^,:]{{2,40}}[,:] {ORDER}.+)",
    rf"(?:i(?:'d| would)?|we(?:'d| would)?) (?:really |much |strongly |just )*(?:prefer|rather|like|love|appreciate|"
    rf"want|"
    rf"need|expect)(?: it)?(?: that| if| for| when)? (?:you (?:to |would |could )?)?(?P<what>(?:(?<=\byou )|(?<=\byou "
    rf"to )|(?<= would )|(?<= could )|your )\w+(?=.*\b{STEADY}\b).+)",
    rf"(?P<what>i (?:really )?(?:don't|do not|dont|never) (?:ever )?(?:want|like|need)(?: it when| to see| to read)?"
    rf"(?: you)?\b(?=.*\b{STEADY}\b).+)",
    r"(?:at all times|as a matter of (?:course|principle)|as a default|across sessions|in (?:all )?later \w+|"
    r"for the foreseeable future|for your records|on (?:every|each) (?:\w+ )?(?:commit|pr|change|task|"
    r"session))[\s,:–—-]+"
    rf"(?P<what>{DIRECTED}.+)",
    rf"(?P<what>{ORDER} .{{4,}}?),? (?:(?:in|for|with) (?:this and )?(?:every|all|each|any) (?:later|future|coming|new|"
    rf"further|other|single)? ?(?:chats?|sessions?|conversations?|tasks?|prs?|commits?|changes?)|at all times|"
    rf"across the board|each and every time|as a matter of (?:course|principle)|no matter what)(?: please| pls)?[.!]*$",
    r"(?P<what>in (?:this|our|my) (?:\w+ )?(?:repo|repository|project|codebase|code base|team),? (?:please )?(?:you |"
    r"we )?"
    r"(?:should |must )?(?:always|never|don't|do not|only|prefer|avoid|stick to) .+)",
    rf"next time,? (?P<what>(?:please |just |always )*(?:{VERB}|don't|do not|no|never|always|i want|i'd like)\b .+)",
    r"i(?:'d| would) (?:really )?(?:appreciate|like|love)(?: it)? if you (?:would |could )?(?P<what>(?:always|"
    r"never) .+)",
    r"(?P<what>(?:do not|don't|dont|never) .{4,}? (?:ever again|ever|again)(?: please| pls)?[.!]*$)",
    r"(?P<what>no (?:more )?[\w /-]{3,40} any ?more\b.*)",
    r"(?:as a (?:general )?rule|by convention|in general|across (?:all|our) \w+)[\s,:]+(?P<what>.+)",
    r"(?P<what>next time (?:you|we) .{3,60}?, .+)",
    r"(?:(?:from|form|fron) (?:now|here|today|this (?:point|moment|day))(?: on(?:wards?)?| forward)(?: out)?|"
    r"henceforth|hereafter|for (?:all )?future \w+|as of (?:now|today)|starting (?:now|today|immediately)|"
    r"(?:until|unless) (?:i (?:say|tell you|ask you)|told)(?: something)? (?:otherwise|differently|else)|"
    r"effective immediately|for next time|until further notice|for everything(?: we do)? from (?:today|now) on|"
    r"in all future \w+|"
    r"for the rest of (?:this|the) project|for all (?:our|my) \w+|in every (?:session|"
    r"conversation))(?: you [^,]{3,60},)?[\s,:–—-]+(?P<what>.+)",
    rf"(?P<what>(?:every(?: single)? time|whenever|each time|any ?time|if ever) (?:you|we) .{{3,80}}?, (?:please |"
    rf"also |always |first |just |then |you )*(?:{VERB}|don't|do not|never|i want|i'd like|no)\b.+)",
    rf"(?P<what>(?:please )?(?:always )?{VERB} .{{4,60}} (?:whenever|every time|each time|any ?time) you .+)",
    r"(?P<what>(?!it\b|this\b|that\b|everything\b|they\b|he\b|she\b|the (?:tests?|build|server|app|page|"
    r"site)\b).{6,}?),? (?:from now on|from here on(?: out)?|going forward|henceforth|until further notice|"
    r"in all future \w+)(?: please| pls)?[.!]*$",
    r"(?P<what>we should (?:always|never) (?!have\b|be able)\w+ .+)",
    r"(?P<what>(?:tests?|\w+ first|descriptive \w+|small \w+)(?: \w+){0,3}, always[.!]*$)",
    rf"(?P<what>(?:every(?: single)? time|whenever|each time|any ?time) i {SAYING} .{{3,60}}, (?:please |always |"
    rf"you )*{VERB}\b .+)",
    r"(?P<what>(?!.*\bthe (?:button|page|form|dialog|list|link|key)\b)when (?:you|we) .{3,60}?, (?:always|never|"
    r"please always|make sure to always|please never) .+)",
    rf"(?P<what>(?:please )?(?:do not|don't|dont|never|always|no more |no |{VERB} ).{{4,}}?),? (?:from (?:now|here|"
    rf"today) on(?:wards?)?|going forward|"
    r"moving forward|in (?:the )?future|next time|every (?:single )?time|each time|by default|henceforth|"
    r"until further notice|any ?more)"
    r"(?: please| pls| thanks)?[.!]*$",
    rf"(?<![,\w] )(?P<what>(?=.*\b{FUTURE}\b)(?:[^,:]{{3,60}}[,:] )?(?:(?:please|pls|always|only|just) )*(?!(?:write|"
    rf"draft|"
    rf"compose|tell|say|print) (?:an?|the|me)\b)(?:{VERB}|don't|do not|dont|never|no(?! matter)|avoid)\b .+)",
    r"(?P<what>(?:if|when(?:ever)?) you(?:'re| are) (?:ever )?(?:unsure|not sure|in doubt|uncertain|stuck)\b[^,]*, "
    r"(?:please |"
    r"always |just )*(?:ask|check with|tell|stop)\b.+)",
    r"(?P<what>your (?:default|first step|first move|motto) (?:should|must)(?: always)? be .+)",
)
NORMS = (
    r"(?:whatever (?:happens|you do)|no matter what),? (?P<what>(?:do not|don't|never|always) .+)",
    r"(?P<what>(?:don't|do not) you ever .+)",
    r"(?<![,\w] )(?P<what>no \w+ing (?:on|in|to|without|after|before|into|from) .+)",
    r"(?P<what>make it (?:your|the) default to .+)",
    r"(?P<what>(?:every|each|all) (?:new |single )?(?:commit|pr|pull request|branch|bug ?fix|merge|release note|"
    r"code review|migration)s? (?:must|should|needs?|gets?|has to|have to|links?|goes|go)\b.+)",
    r"(?P<what>you(?:'re| are) (?:not|never) (?:allowed|supposed|permitted) to .+|you(?:'re| are) never to .+)",
    rf"(?P<what>(?:always|never),? (?:ever|always|never),? {VERB}\b .+)",
    r"(?P<what>when in doubt,? .+)",
    rf"(?P<what>{AGENT_THINGS}: (?:always|never|only|no) .+)",
    r"(?P<what>(?:refrain from|avoid) .{4,60}\bin (?:any|all|every) .+)",
    r"(?P<what>i (?:want|expect|need|would like|'d like) (?!to\b|you\b).{3,60}\b(?:before|after|with|in|on|for) "
    r"(?:every|each|"
    r"any) (?!of\b)\w+.*)",
    rf"(?P<what>whenever (?:there's|there is|possible|something|it makes sense)[^,]{{0,50}}, (?:please |always "
    rf")*{VERB}\b .+)",
    r"(?P<what>if (?:an?|any|something|anything) [^,]{3,50}, (?:please |always |just )*(?:(?:tell|ask|ping|warn|"
    r"notify) me|"
    r"let me know)\b.*)",
    r"(?P<what>(?:do not|don't|dont|never|no|nothing)\b.{4,80}\bunless (?:i|we|you're|you are|told|asked|"
    r"explicitly)\b.+)",
    r"(?P<what>i (?:want|need|expect|would like|'d like) (?:every|each|all|any) (?:[\w-]+ ){1,3}(?:that )?you "
    r"(?:write|make|"
    r"create|add|send|open|do|give|propose|produce|show)\b.+)",
    r"(?P<what>(?!i\b|it\b|that\b|this\b)[^,;]{8,80})[,;–—-]+ *(?:that's|that is|this is|it's) (?:(?:just |simply "
    r")?how "
    r"(?:we|i) (?:do|work|like|want|handle|write|name)\b.*|(?:a|an|our|my|the) (?:\w+ ){0,2}(?:rule|policy|convention|"
    r"standard|agreement|must|house style)\b.*)",
    r"(?P<what>i (?:always|never) (?:want|need|expect) .+)",  # "here" and "the first" mean the code at hand
    r"(?P<what>(?:do not|don't|dont) ever [a-z]+ .+)",
    rf"(?P<what>(?:always|never|under no circumstances|at no point) (?:ever )?(?!(?-i:[A-Z][a-z]+ [A-Z]))(?:ping|"
    rf"bring|{ANY_VERB})\b(?!.*\b(?:here|the (?:first|second|last) \w+ of)\b) .+)",
    rf"(?P<what>{ORDER}(?!.*\bhere\b) .{{3,}},? (?:always|without exception)[.!]*$)",
    r"(?P<what>(?:make sure (?:you|to)|be sure (?:you|to)|remember to|don't forget to) (?:always|never) .+)",
    r"(?P<what>[\w'@./ -]{4,40}? (?:is|are) (?:off[- ]limits|forbidden|not allowed|mandatory|taboo|required|"
    r"compulsory) (?:here|in (?:this|our) \w+)\b.*)",
)
