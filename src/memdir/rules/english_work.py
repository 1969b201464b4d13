"""English: corrections and praise of the way of working. "We never do that here", "keep doing it like that"."""

from memdir.rules.english_words import (
    AGENT_THINGS,
    AMONG_US,
    AND_NOW,
    DEFINITE,
    HABIT,
    HERE,
    NORM_SUBJECT,
    PAST,
    THINGS_SAID,
    VERB,
    WE_DO,
    YOURS,
)
from memdir.rules.systems import SYSTEM

CORRECTIONS_WHOLE = (
    r"(?P<what>we (?!(?:have|had|need|get|got|could|should|might|want|went|were|are|"
    r"did)\b)[a-z]+ [^,]{2,50}, (?:and )?"
    r"(?:no|not|never) .+)",
    r"(?P<what>(?!it\b|that\b|this\b|the (?:first|second|other)\b)[^,]{4,60} (?:in this (?:project|repo|codebase|"
    r"team)|"
    r"in our \w+|here|around here), (?:and )?(?:not|never|no) .+)",
    r"(?P<what>[\w' -]{3,40} (?:isn't|aren't|is not|are not) (?:ok|okay|allowed|acceptable|fine|wanted|a thing) "
    r"(?:here|with us|for us|in (?:this|our) \w+)\b.*)",
    r"(?P<what>[\w -]{3,20}s like .{2,30} (?:are|is) .{3,30}, (?:use|write|prefer|say|name|pick) .+)",
    r"(?P<what>if (?:something|anything|a \w+|any \w+|tests?|a test) [^,]{3,50}, (?:always |just |please |then )*"
    r"(?:tell|ask|stop|warn|ping|report|say|let me|wait|check with|don't|never)\b.+)",
    rf"(?P<what>if you [^,]{{3,50}}, (?:always |just |please |then )*(?:{VERB}|don't|never)\b.+)",
    rf"(?P<what>we (?:always |never |only |usually |generally |deliberately )?{HABIT} (?!it\b|that\b|this\b|you\b|"
    rf"about\b|for a\b)(?=.*\b(?:code|tests?|commits?|prs?|branch\w*|names?|files?|functions?|versions?|modules?|"
    rf"types?|docs?|logs?|configs?|errors?|comments?|legacy|apis?|deps|dependencies|imports?|"
    rf"releases?)\b)(?!.*\b(?:now|tomorrow|today|tonight|later|soon|this (?!project|repo|codebase|team)\w+|(?:from|"
    rf"until|till|by|starting|as of) (?:next )?(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b).+)",
    r"(?P<what>we use [^,]{2,40},? (?:not|never|instead of|rather than) .+)",
    r"(?P<what>.{4,80}\bunless i (?:ask|say|tell|explicitly|want|request)\b.*)",
    r"(?P<what>(?!it\b|that\b|this\b).{6,60}\b(?:is|are) (?:not|never|no)\b.{3,40}\b(?:for us|with us|around here|"
    r"on purpose)\b.*)",
    r"(?P<what>there (?:is|are) no [\w -]{3,40} (?:here|around here|in this (?:repo|project|codebase)) (?:on purpose|"
    r"by design|for a reason)\b.*)",
    r"(?P<what>(?:everything|anything|all code|all) (?:new )?[\w ]{0,20}(?:is|are|goes|gets|must be) .{2,40} (?:here|"
    r"around here|in this (?:repo|project|codebase))\b.*)",
    rf"(?P<what>you (?:never|always) (?!make me|tell me|say that|find)(?:{VERB})\b .+)",
    r"(?P<what>.{3,60}\b(?:nobody|no one) (?:edits?|touch\w*|changes?|commits?|writes?|pushes)\b.*)",
    r"(?P<what>(?!it\b|this\b|that\b|i\b|the (?:test|build|server|app|page)\b)[\w@./' -]{6,60},? always[.!]*$)",
    r"(?P<what>in [\w +#]{2,20},? we (?:use|write|prefer|always|never|don't)\b.+)",
    rf"(?P<what>we (?:always |never |only |usually |generally )?{WE_DO} (?!it\b|that\b|this\b|now\b|going|in mind|"
    rf"to\b|you\b|on this|up\b|track\b)(?!.*\b(?:now|tomorrow|today|tonight|later|soon|for now|this (?!project|repo|"
    rf"codebase|team)\w+)\b).+)",
    rf"(?P<what>{AND_NOW}(?!.*\bi (?:can't|don't|couldn't)\b|the\b|this\b|that\b)(?:all |every |new |our |such |"
    rf"those )?(?:[\w/-]+ "
    rf"){{0,2}}?(?:{AGENT_THINGS}|keys|files|"
    rf"classes|constants|(?-i:[A-Z]{{2,6}})) (?:don't|doesn't|do not|does not|shouldn't|should not|mustn't|must not|"
    rf"can't|cannot|always|never|only|must|"
    rf"should|have to|"
    rf"need to|(?:is|are) (?:always|never|only)|belongs?|goes?|needs?|stays?|lives?|carry|contain|describe|follow|"
    rf"end with|start with|come with) (?!be the|work|have been|exist|matter|fail|pass|run\b|break).{{3,}})",
    r"(?P<what>(?:[\w/-]+ ){1,4}(?:only|please),? (?=.*\b(?:everywhere|always|in this (?:project|repo|codebase)|"
    r"our rule|our convention|each|per|rule|in (?:the|our) (?:repo|project|codebase))\b).+)",
    r"(?P<what>(?:one|two|a single|max(?:imum)?) [\w -]{2,20} (?:per|each|for each|"
    r"for every) [\w ]{2,30}(?:please|always|,|$).*)",
    rf"(?P<what>{AGENT_THINGS} in [A-Z]\w+,? (?:please|always|only)\b.*)",
)
# A norm as a statement: what it is about, and a verb of obligation, belonging or custom.
CORRECTIONS_NORM = (
    rf"(?P<what>{NORM_SUBJECT} (?:should|must|has to|have to|need to|needs to|ought to|is to|are to)(?: be)? "
    rf"(?:always|never|only)\b.+)",
    rf"(?P<what>{NORM_SUBJECT} (?:is|are|gets?|goes?) (?:always|never|only) (?!the\b|a\b)\w+.+)",
    rf"(?P<what>{NORM_SUBJECT} (?:belongs?|goe?s?|lives?|stays?) "
    rf"(?:in|into|to|under|against|on|with|at|after|before|inside|next)\b(?:(?=.*, (?:not|never) )|(?!.*{SYSTEM})) .+)",
    r"(?P<what>our (?!users|customers|clients|flight|team is|server)(?:[\w-]+ ){1,3}?(?:is|are|use|uses|go|"
    r"goes|follow|follows|have|has|start|starts|end|ends|"
    r"need|needs|must|should) (?!\w+ing\b|very\b|so\b|too\b)(?:(?:in|on|to|with|at) )?\w+.*)",
    rf"(?P<what>{NORM_SUBJECT} (?:is|are|uses?|gets?|needs?|goe?s?|starts?|ends?|has|have|must|should|come|"
    rf"comes|"
    rf"follows?) .{{2,60}}\b{AMONG_US}\b.*)",
    rf"(?P<what>{AND_NOW}(?:this|our|the) (?:[\w-]+ )?(?:project|repo|repository|codebase|code base|team|"
    rf"company) (?:uses|"
    rf"wants|follows|requires|prefers|sticks to|is on|expects|forbids) .+)",
    r"(?P<what>in our (?:team|company|org|department|project|repo|codebase),? (?!the (?:button|page|app|"
    r"test))\w+ .+)",
)
# A norm as a wish or a verdict, without such a verb.
CORRECTIONS_NOUN = (
    r"(?P<what>[a-z]+ing (?!the\b|this\b|that\b|it\b|my\b)[\w `'/-]{2,40} (?:is|isn't|is not)(?: not| never)? (?:ok|"
    r"okay|allowed|acceptable|fine|an option|"
    r"wanted|cool|welcome|forbidden|discouraged|required|mandatory|a no-go|done|up to you|your job|a waste of time|"
    r"pointless|unnecessary|overkill|the answer)\b.*)",
    r"(?P<what>no (?!changes|problems|worries|errors|thanks|questions|issues|ideas|others|results|differences|plans|"
    r"news|"
    r"more|needs|tests\b|longer)[\w-]+(?: [\w-]+){0,2}(?<=\w\w\ws)[.!]*$)",
    rf"(?P<what>(?!.*\b{DEFINITE}\b)(?:please )?avoid [\w /-]{{3,50}}s\b.*)",
    rf"(?P<what>(?!.*\b{DEFINITE}\b)prefer [\w -]{{3,30}} (?:to|over) [\w -]{{3,30}}.*)",
    r"(?P<what>(?:just|only) (?!the (?:first|second|third|last|next|other)|one\b)(?:the )?[\w ]{3,25}, (?:no|not|"
    r"never|without) "
    r"(?!the (?:first|second|last))\w+.*)",
    r"(?P<what>(?:give|show|send|tell) me [^,]{3,40} only, (?:without|no|not|never) .+)",
    r"(?P<what>i only (?:want|need) [^,]{3,40}, (?:never|not|no) .+)",
    r"(?P<what>we(?:'re| are) (?:on|using|with) (?!the\b|an?\b)[^,]{2,30}, not (?!the\b|an?\b)(?!.*\b(?:why|"
    r"breaks?)\b).+)",
    r"(?P<what>we(?:'ve| have| got)+ (?:an? |our own )[\w -]{2,25} for (?:that|this|those)\b.*)",
    rf"(?P<what>only (?:i|we|the \w+) (?:may |can |should )?{VERB}\b .+)",
    r"(?P<what>i(?: really| do| just| honestly)* (?:dislike|hate|can't stand|don't like|do not like|don't want|don't "
    r"need) "
    r"(?:all )?(?:these|those|your|such) [\w ]{3,40}.*)",
    rf"(?P<what>{NORM_SUBJECT} (?:is|are) (?:an? no-go|off[- ]limits|forbidden|banned|not allowed|not ok(?:ay)?|taboo|"
    rf"discouraged|frowned upon|unacceptable|never ok(?:ay)?|not welcome|(?:what|how|where) we (?:use|do|want|like|"
    rf"put|keep|"
    rf"write|name)\b).*)",
    rf"(?P<what>(?!the\b|this\b|that\b)[\w/-]+(?: [\w/-]+){{0,3}} only,? (?:{AMONG_US}\b.*|here, please.*|"
    rf"please[.!]*$))",
    r"(?P<what>never (?:an? |any )?(?!mind|seen|heard|been|had|again)[\w-]+(?<!ed)s? (?:for|in|as|on|with|inside|to) "
    r"\w+.*)",
)
CORRECTIONS_PLAIN = (
    rf"(?P<what>(?!.*\b{DEFINITE}\b)(?:please )?(?:use|prefer|favou?r|keep|put|name|format|write|answer|reply|bump|"
    rf"group|"
    rf"sort|spell|commit|split|indent|call|say|wrap|import|throw|return|log|test)\b(?=.*(?:, not |\binstead of\b|"
    rf"\brather than\b|\bwhen (?:you|we)\b|\bone by one\b|\bseparate(?:ly)?\b|\bover\b)).{{6,}})",
    rf"(?P<what>(?!.*\b{DEFINITE}\b)[\w-]+(?: [\w-]+){{0,3}},? (?:please,? )?(?:everywhere|always|throughout|at all "
    rf"times)"
    r"(?:,? please)?[.!]*$)",
    r"(?:like |as )?i(?:'ve| have)? (?:\w+ )?(?:told|asked|said|mentioned|explained|reminded)(?: you| it| this| that)*"
    r"(?: (?:before|already|again|last \w+|\w+ times|yesterday|earlier|so often|countless times))+\s*[:,;–—-]+\s*"
    r"(?P<what>.+)",
    r"(?P<what>you (?:always|never|constantly|keep on|regularly) (?:forget|ignore|skip|miss|add|write|put|use|leave|"
    r"run|"
    r"ask|change|break|touch|assume)\b (?!something|it\b|that\b).+)",
    r"(?P<what>(?:please )?(?:lay off|go easy on|ease up on|cool it with|tone down|cut back on|hold back on|cut it out "
    r"with|stay (?:out of|away from)|keep (?:your hands )?(?:off|out of|away from)|hands off) .{3,})",
    r"(?P<what>(?:i'm|i am) (?:so |really |getting )*(?:tired|sick|fed up)(?: of| with) (?:you|your|seeing|reading|"
    r"having|"
    r"repeating|all the)\b.+)",
    r"(?P<what>(?:please )?(?:drop|skip|cut|lose|stop|quit|no more)(?: with)? (?:the|all the|your|that|all "
    r"that)\b[^,]{1,40}"
    r"(?:stuff|talk|business|nonsense|speak|bits|act|routine)\b.*)",
    r"(?P<what>not [^,]{2,40}, (?:but |rather )?we (?:always )?(?:use|say|write|call|do|go|prefer|name|have)\b.+)",
    r"(?P<what>(?:skip|drop|cut|omit|leave out|forget) .{3,60}, (?:just|only|simply) .+)",
    r"(?P<what>you (?:don't|dont|do not|needn't) (?:have|need) to (?!worry|do (?:that|it|this)|be\b|go\b|"
    r"understand)\w+ "
    r"(?!it\b|that\b|this\b|now\b).{6,})",
    rf"(?P<what>{VERB} only (?:the )?(?:files|lines|parts|tests|code|things|what)\b.*\b(?:you|i|that|we)\b.*)",
    rf"(?P<what>(?:please )?{VERB} (?:the |your )?[\w ]{{3,30}} first, (?:the )?[\w ]{{3,30}} (?:after|afterwards|"
    rf"later|second|last)\b.*)",
    r"(?P<what>you (?:don't|do not) need (?!to (?:worry|do that|be)|any help|it|that)\w+.{4,})",
    r"(?P<what>(?:give|show|send|tell) me (?:only |just |one |the |a |your )?[^,]{3,50}, (?:not|no|instead of|"
    r"rather than) .+)",
    r"(?P<what>(?:only|just) (?:show|give|send|tell) me (?!how|what|why|where|the (?:first|second|last|"
    r"next))\w+ .{6,})",
    rf"(?P<what>only {VERB} [^,]{{3,50}}, not .+)",
    r"(?P<what>(?:leave out|lose|drop|skip|cut|omit|spare me) (?:the|all|your|those|these|"
    r"all the)(?: \w+){0,2}? (?:emojis?|headings?|headers?|sentences?|greetings?|sign-?offs?|closings?|bullets?|"
    r"bullet points|tables?|quotes?|adverbs?|smileys?|exclamation marks?|niceties|salutations?|compliments?)\b.*)",
    r"(?P<what>(?:that's|this is|it's) (?:way |far |much )?too (?:big|large|long|much|small|verbose|"
    r"complicated) (?:to|for)\b.*)",
    r"(?<!, )(?P<what>no (?:\w+ )?\w+s (?:in|on|at|for|inside|outside) (?!this|that|there)\w+.*)",
    r"(?P<what>(?:use|write|say|prefer) (?:plain|simple|short|full|proper|real|explicit|descriptive|meaningful)\b.+)",
    r"(?P<what>(?:less|fewer|more) \w+(?: \w+)?, (?:more|less|fewer) \w+.*)",
    r"(?P<what>(?:answer|reply|respond|write|speak|talk)(?: to me| back)? in (?-i:[A-Z])\w+\b.*)",
    r"(?P<what>stay (?:within|in|on|inside) (?:the )?(?:scope|task|topic|limits)\b.*)",
    r"(?P<what>(?:always )?ask (?:me )?(?:first )?before (?:you )?\w+.*)",
    r"(?P<what>you (?:\w+ )?(?:explain|talk|write|ask|apologi[sz]e|assume|add|change|comment|"
    r"repeat) (?:yourself )?(?:way |far )?too (?:much|many|often)\b.*)",
    rf"(?P<what>you (?:can't|cannot|may not|aren't allowed to|don't have to|don't need to|"
    rf"needn't) (?:just )?.{{3,60}}\b(?:{HERE}|every|each|always|any)\b.*)",
    r"(?P<what>(?:drop|cut|lose|tone down|spare me|leave out|skip) (?:the|all the|your) (?:\w+ )?(?:enthusiasm|"
    r"excitement|jargon|hype|sarcasm|politeness|formality|exclamation marks?|drama|adjectives|superlatives)\b.*)",
    rf"(?P<what>only {VERB} (?:what|when|if|where|the (?:ones|parts|files|lines)|things)\b.+)",
    r"(?P<what>i(?:'d| would) rather (?:you|have it|see|read)\b(?!.*\bone\b).+)",
    r"(?P<what>(?:that's |these are |this has |there are )?(?:way |far )?too (?:many|much) (?:comments?|emojis?|files|"
    r"abstractions?|words|details?|questions|commits|changes|bullets?|text|boilerplate|explanations?|output)\b.*)",
    r"(?P<what>(?:please )?(?:don't|do not|never) (?:just )?(?:guess|assume|speculate|improvise|invent|make (?:things|"
    r"stuff|it) up|hallucinate)\b.*)",
    rf"(?P<what>(?:please )?keep (?:the |your |all )?(?:{AGENT_THINGS}|diffs?|changes|functions|classes|"
    rf"methods) (?:\w+ )?(?:small|short|simple|minimal|focused|clean|flat|tiny|separate|in)\b.*)",
    r"(?P<what>no (?!thanks|need|problem|worries|idea|rush|one|way|it|that|this|the|not|longer|doubt|"
    r"more)[\w/`-]+(?: [\w/`-]+){0,4}, (?:we|just|use|only|it should|please)\b.*)",
    r"(?P<what>no (?!thanks|need|problem|worries|idea|rush|one|way|it|that|this|the|not|"
    r"more than)[\w/`-]+(?: [\w/`-]+){0,6},? (?:please|pls|ever)\b.*)",
    r"(?P<what>be (?:more|less|very|as) (?:concise|brief|terse|direct|specific|careful|verbose|formal|blunt|"
    r"conservative|consistent|explicit|chatty|precise)\b.*)",
    r"(?P<what>(?:skip|cut|drop|spare me|lose|leave out|omit|forget)(?: out)? (?:the|all the|your|"
    r"all your) (?:\w+ )?(?:preambles?|intro\w*|pleasantries|fluff|summar\w+|disclaimers?|caveats|apolog\w+|chatter|"
    r"chit-?chat|filler|boilerplate|emojis?|praise|small talk|explanations?|recaps?|theory|basics|lectures?|"
    r"flattery|compliments)\b.*)",
    r"(?P<what>we(?:'re| are) (?:an? [\w -]{2,30} (?:shop|team|company|house|project)|all[- ]in on)\b.*)",
    r"(?P<what>you (?:\w+ed|did|put|wrote|made|forgot|broke|ran|left|sent) .{2,60} again\b.*)",
    r"(?P<what>(?:again, )?i(?:'ve| have)? (?:already |just )?(?:told|asked|said) (?:you )?(?:\w+ times )?(?:not to|"
    r"to always|to never|to stop|before(?: not)? to)\b.+)",
    r"(?P<what>.{3,40} (?:is|are) (?:wrong|not ok|not okay|unacceptable|a no-go|banned|not how) (?:for us|here|"
    r"with us|in (?:this|our) \w+)\b.*)",
    r"(?P<what>(?:our|the (?:team|project|house)(?:'s)?) (?:naming |coding |code |commit |test )*(?:convention|"
    r"style ?guide|style|policy|rule|standard|guideline|practice)s? (?:is|are|says?|requires?|forbids?|wants?|"
    r"asks?)\b.+)",
    r"(?P<what>(?:make|do|keep|prefer|want)(?: it to)? (?:only )?(?:minimal|small|smaller|targeted|"
    r"surgical) (?:changes|edits|diffs|commits|prs|steps)\b.*)",
    r"(?P<what>(?!.*, (?:so )?(?:please )?(?:add|fix|write|create|make|profile)\b)(?:this|our|the|my) (?:\w+ "
    r")?(?:codebase|code base|project|repo|team|company|shop) (?:is|uses|does|has|"
    r"requires|follows|prefers|doesn't|never|always)\b.*\b(?:only|not|never|always|no|don't|all)\b.*)",
    r"(?P<what>(?:please )?(?:use|write|put|name|say|call) [^,]{2,50}(?:,| and) (?:not|never) [^,]{2,50}(?:in|on|for|"
    r"across) (?:this|our|all|the whole) .+)",
    r"(?P<what>i (?:don't|do not) (?:need|want|like) (?:the |a |all |you |to see |to read |your |"
    r"any )*.{3,60}(?:every time|each time|after (?:every|each)|all the time|at the end|in every|whenever)\b.*)",
    r"(?P<what>(?:ask|check with|tell|warn|consult) me (?:first )?before (?:you |any |every |each )?\w+.*)",
    r"(?P<what>(?:stop|quit|cease|enough|easy)(?: it)? (?:with (?:the|all the|these|your) .+|\w+ing\b(?! (?:by|here|"
    r"there|now|at)\b).+))",
    r"(?P<what>you (?:keep|always|constantly|keep on|repeatedly) (?!up\b)\w+ing\b.+)",
    rf"(?P<what>we (?:don't|do not|dont|never|always|avoid|only|(?:do )?prefer|stick (?:to|with)|follow|require|"
    rf"consistently) {PAST}"
    r"(?!.*\bthis (?!project|repo|codebase|team|company|code base|way|here)\w+)(?!have\b|want\b|know\b|need\b|see\b|"
    r"get\b|think\b|remember\b|understand\b|care\b|want to\b|seem\b|even\b|really\b|really know\b).+)",
    rf"(?P<what>we(?:'re| are)? (?:use|using|write|name|call|put|keep|want|test|format|commit|deploy|review|log|"
    rf"document|do|go with|work with|version|tag|spell) .+\b{HERE}\b.*)",
    r"(?P<what>we use .+(?:in|for) (?:\w+[- ])+(?:text|code|tests?|docs|copy|names|commits|logs|messages)\b.*)",
    r"(?P<what>that(?:'s| is)(?: really)? (?:not|never) (?:how|the way|what) (?:we|i|our \w+) (?!meant|asked|wanted|"
    r"said|mean\b|need).+)",
    r"(?P<what>(?:that(?:'s| is)|this is|it(?:'s| is)) (?:not our|not my|against (?:our|my|the)) (?:style|convention|"
    r"policy|rules?|way|guidelines?|standards?)\b.*)",
    rf"(?P<what>{AGENT_THINGS} (?:must|should|need to|have to|always|never|belong|go) .{{4,}},? (?:not|never|"
    rf"instead of|rather than) .+)",
    r"(?P<what>you (?:don't|dont|do not|needn't) (?:have|need)? ?(?:to )?(?:ask|explain|apologi[sz]e|confirm|"
    r"summari[sz]e|check with me|tell me|wait|remind me|thank|repeat)\b.+)",
    r"(?P<what>no need to (?:ask|explain|apologi[sz]e|confirm|summari[sz]e|repeat|thank)\b.{6,})",
    r"(?P<what>(?:i'm )?(?:really )?not a (?:big |huge )?fan of .+(?:,|;| so| -) .+)",
    r"(?P<what>(?:don't|do not|dont) (?:speak|talk|explain|write|reply|answer)\b.{0,20}\b(?:me|i'm|i am)\b.+)",
    rf"(?P<what>(?:please )?(?:keep|make|write|format|shorten|limit|give me|"
    rf"send me)(?: me)? (?:all )?(?:your (?:\w+ )?|(?=answers|replies|responses|explanations|"
    rf"summaries)){THINGS_SAID}\b .+)",
    rf"(?P<what>(?:i(?:'d)?|i would) (?:rather|prefer|like|don't want|do not want|dislike|hate)(?: it)?(?: when|"
    rf" if)? (?:you (?!to (?:write|add|make|fix|create|do|give|tell|show|explain|help))|{YOURS})\b.+)",
    r"(?P<what>prefer (?:\w+ing|\w+ over|the existing|existing) .+)",
    r"(?P<what>only (?:touch|change|edit|run|commit|modify|update|use|fix|format|add|do|install|answer) .*(?:i|i've|"
    r"i have|were) (?:ask|asked|told|request|said|mention).*)",
    r"(?P<what>(?:it(?:'s| is)|they(?:'re| are)|it should (?:always )?be|say) .{2,40} (?:in our|in this|here|for us|"
    r"with us|across)\b.*(?:,| and) (?:never|not) .+)",
    r"(?P<what>you (?:should|must) (?:always|never) (?!have\b).+)",
    r"(?P<what>(?:small|short|smaller|shorter|fewer|less|concise|atomic|descriptive|meaningful|plain|"
    r"simple)(?:er)? [\w -]{2,30}?,? (?:please|only|always)\b,? .{4,})",
    r"(?P<what>how (?:often|many times) (?:do|must|have) i .+)",
    rf"(?P<what>(?:leave|keep) (?:\w+ |\w+ \w+ )?out of (?:my |the |your |our )?{AGENT_THINGS}\b.*)",
    rf"(?P<what>no (?:more )?(?:\w+[ -]){{1,3}}(?:in|on|at|for) (?:my |the |your |our |any )?{AGENT_THINGS}\b.*)",
)
CORRECTIONS_GENERAL = (
    r"(?P<what>(?:do not|don't|dont|no need to|avoid|refrain from|please no|skip|leave out|drop) (?!worry|know|think|"
    r"get me|mind|care|bother|forget|have|want|need|see|understand|"
    r"remember|hesitate|judge|tell any|let me|like|feel|be afraid|be shy|give up|seem)\w+.{3,})",
    r"(?P<what>you (?:shouldn't|should not|mustn't|must not|can't just|cannot just|aren't supposed to) .+)",
    rf"(?P<what>(?:use|write|run|add|put|make|keep|name|format|answer|reply|ask|check|prefer|stick to|"
    rf"stick with) (?!it\b|an?\b|me\b|some\b|this\b|that\b|sure\b|the (?:first|second|third|last|"
    rf"other)\b)(?=.*\b(?:always|never|every time|in general|by default|everywhere|as a rule|whenever|all our|"
    rf"in all|unless i|your (?:answers|replies|responses)|{HERE})\b).+)",
    r"(?P<what>use [^,]{2,40}, not [^,]{2,40})",
    r"(?P<what>(?:it's|it is|that's|they're|they are) (?!the\b|an?\b|my\b|\d)[\w`.-]+(?: \w+)?, not (?!the\b|"
    r"\d)[\w`.-]+.*)",
    r"(?P<what>(?:that|this|these|those|it)(?:'s| is| are) too (?:long|verbose|short|wordy|much|detailed|chatty)\b.+)",
)
BARE_PROHIBITION = (
    r"(?P<what>(?:do not|don't|dont|avoid|refrain from|no need to|you shouldn't|you should not|you mustn't|"
    r"you must not|you may not|you can't|you cannot) (?!worry|"
    r"know|think|get|mind|care|bother|forget|have|want|need|see|understand|remember|hesitate|judge|tell|let|like|"
    r"feel|be|give|seem|include|provide|write|mention|repeat)"
    r"\w+(?: push| run)?(?: (?:to|into|on|in|against|from)(?= \w+ \w+s\b))? (?!the\b|that\b|this\b|these\b|those\b|"
    r"it\b|them\b|my\b|me\b|him\b|her\b|any\b|a\b|an\b|to\b|on\b|in\b|"
    r"about\b|anything\b|up\b|too\b|yet\b|so\b|with\b|for\b|your\b|at\b)(?:[\w/-]+ ){0,2}[\w/-]*(?:s|ing|ion|logic|"
    r"code|state|sql|css|json|html)\b(?! (?:here|yet|now)\b).*)",
)
CONFIRMATIONS = (
    r"(?:that|this)(?:'s| is) how it should (?:always )?be\b.*",
    r"(?:please )?keep (?:at it|at this|it up)\b.*",
    r"(?:please )?do (?:that|this|it) (?:more often|more|every time|again)\b.*",
    r"thanks for \w+ing .+\b(?:always|keep|from now on|every time)\b.*",
    r"(?:please |pls |so |just )*(?:keep (?:doing|up|on|it (?:like (?:that|this)|that way|this way)(?=,? (?:for|from|"
    r"in|always|going|every|please)\b)|that up|this up|going with|writing|"
    r"giving)|stick (?:with|to) (?:it|that|this)|continue (?:doing|to do|this way|that way|like (?:this|that)(?= \w))|"
    r"carry on like)\b.*",
    r"(?:more|lots more) (?:of (?:that|this|these|those)|like (?:that|this))\b.*",
    r"(?:please |always |just )*(?:do|handle|write|structure|format|report|present|show|work) (?:it |that |this |"
    r"them |things )?(?:that way|this way|like (?:that|this)|exactly (?:that|this)|the same way|so|that|"
    r"the same)(?: again)?,? .*(?:going forward|from now on|always|every time|next time|in (?:the )?future|for all|"
    r"for (?:bigger|other|similar|all)\b(?! (?:files|tests|functions|the|of)\b)|again\b).*",
    r"(?:please )?always (?:do|handle|write|work|structure|report|format|show) (?:it|that|this|them)(?: (?:like|that|"
    r"this)\b.*| for .*)?",
    r"(?:that|this)(?:'s| is| was) (?:exactly |precisely |just )?(?:how|the way|the (?:level|kind|sort|style|amount|"
    r"format|tone|length)\b.*?) (?:i|we) (?:want|like|prefer|expect|need)\b(?: it)? \w.{3,}",
    r"(?:good|great|right|nice|excellent|smart|wise|perfect) (?:call|choice|move|decision|thinking|approach|"
    r"instinct) (?:on|to|not|with|in|by|about) .+",
    r".{6,}\b(?:was|is) (?:exactly |absolutely |definitely )?(?:the )?right (?:call|choice|thing(?: to do)?|move|"
    r"decision|approach|way)\b.*",
    r"(?:you were |you're |that was )?(?:exactly |absolutely |totally )right to .+",
    r"(?:i )?(?:really |do |just )*(?:love|like|loved|liked|appreciate|appreciated) (?:that|how|the way|it (?:that|"
    r"when|how)) you .+",
    r"(?:the|these|those|your|short|such|this) (?:(?!\bi\b|\bi'|would|should|could|think|schedule|"
    r"see what).){4,60}\bworks? (?:really |very |so )?(?:well|great|nicely|best|perfectly) for me\b.*",
    r"yes,? (?:exactly )?like (?:that|this),? (?:please )?(?:always|from now on|every time|in future|going forward).*",
)
