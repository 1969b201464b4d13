"""English, put together: its words, its rules in the order they are tried, and what holds for all of them."""

from memdir.language.grammar import RequestCategory, RequestLanguage, RuleNeed, any_of, make_request_rule, words_of
from memdir.records import Kind
from memdir.rules.english_asking import BACK, FORGETS, LASTING, LASTING_BACK, NORMS, RULES, SAVED_BEFORE, SAVES, WEAK
from memdir.rules.english_facts import DECIDED, DUE, IDENTITIES, OWN_WORK, POINTERS, SETTLED, WHO_DECIDES
from memdir.rules.english_kinds import ABOUT_ME, DIRECTS, LOOKS, MINE, PLACES, PREFERS
from memdir.rules.english_manner import ENDINGS, MANNER, MANNER_NORMS
from memdir.rules.english_slots import (
    ANNOUNCED_FACT,
    ANNOUNCED_SCOPE,
    ANNOUNCED_WISHES,
    KEPT_BEFORE,
    KEPT_FACTS,
    LASTING_ORDERS,
    MEANT_FOR_GOOD,
    SLOT_NORMS,
)
from memdir.rules.english_words import AILING, AND_NOW, GENERAL, LATER, VERB
from memdir.rules.english_work import (
    BARE_PROHIBITION,
    CONFIRMATIONS,
    CORRECTIONS_GENERAL,
    CORRECTIONS_NORM,
    CORRECTIONS_NOUN,
    CORRECTIONS_PLAIN,
    CORRECTIONS_WHOLE,
)

ENGLISH = RequestLanguage(
    name="en",
    leads=any_of(
        r"""just so you know, so you know, ok, okay, hey, hi, hello, now, just, also, and, but, so, then, first,
        actually, well, right, thanks, thank you, ah, oh, hm+, ugh+, argh, claude,
        can you, could you, would you, will you, can u, i want you to, i'd like you to, i would like you to,
        i need you to, i'd like for you to, we want you to, you should, you must, you have to, you need to,
        you are to, you can, you may,
        it's important that you, it is important that you, it's important to, please, pls,
        plz, let's, let us, would you mind, mind, make sure to, make sure that you, be sure to, make sure you,
        no+(?=\s*[.!:;…–—]|\s*,), nope, nah, yes, yep, yeah, btw, by the way, important, one more thing, fyi, heads up,
        again, seriously,
        like i said, as i said, i said,
        i told you, i've told you(?: \w+)?, for the \w+ time, look, listen, come on, great, perfect, nice, good, cool,
        awesome, excellent, super, lovely, wonderful, exactly, love it, this time, honestly, to be clear,
        for context, for the record,
        quick note, side note, reminder, try to, kindly, instead, really, good to know, do, in short, for me, for us,
        since you ask, in case it matters, wrong approach,
        wrong \w+(?=[:,]), (?:that's|this is|that is) (?:wrong|not right|incorrect|not ok(?:ay)?)(?=[\s]*[,.:;!–—]),
        wrong, not quite, not like this, not like that, ps, p\.s,
        simply, in this project, in this repo, when working with me, with me, small thing, one thing,
        correction, attention, fine, alright, once more(?: for [\w ]{2,20})?, for the love of \w+, nope, i repeat,
        whatever you do, you can always"""
    ),
    rules=(
        *(make_request_rule(RequestCategory.FORGET, at, RuleNeed.STRONG) for at in FORGETS),
        *(
            make_request_rule(RequestCategory.REQUEST, at, RuleNeed.STRONG, RuleNeed.WHOLE)
            for at in (*BACK, *SAVED_BEFORE, *KEPT_BEFORE)
        ),
        *(
            make_request_rule(RequestCategory.REQUEST, at, RuleNeed.WHOLE, RuleNeed.DIRECTING, kind=Kind.FEEDBACK)
            for at in (*LASTING_BACK, *MEANT_FOR_GOOD)
        ),
        *(make_request_rule(RequestCategory.REQUEST, at, RuleNeed.STRONG) for at in SAVES),
        *(make_request_rule(RequestCategory.REQUEST, at, RuleNeed.STRONG, RuleNeed.ALONE) for at in WEAK),
        *(make_request_rule(RequestCategory.REQUEST, at, RuleNeed.STRONG, default=Kind.FEEDBACK) for at in RULES),
        make_request_rule(
            RequestCategory.REQUEST, ANNOUNCED_SCOPE, RuleNeed.STRONG, RuleNeed.WHOLE, kind=Kind.FEEDBACK
        ),
        *(
            make_request_rule(RequestCategory.REQUEST, at, RuleNeed.STRONG, RuleNeed.WHOLE, default=Kind.FEEDBACK)
            for at in ANNOUNCED_WISHES
        ),
        make_request_rule(RequestCategory.REQUEST, ANNOUNCED_FACT, RuleNeed.STRONG, RuleNeed.WHOLE),
        *(make_request_rule(RequestCategory.REQUEST, at, RuleNeed.STRONG) for at in KEPT_FACTS),
        *(
            make_request_rule(RequestCategory.CONFIRMATION, at, RuleNeed.ANSWERED, kind=Kind.FEEDBACK)
            for at in CONFIRMATIONS
        ),
        *(
            make_request_rule(RequestCategory.REQUEST, at, RuleNeed.LASTING, default=Kind.FEEDBACK)
            for at in (*LASTING, *LASTING_ORDERS)
        ),
        make_request_rule(
            RequestCategory.REQUEST,
            r"(?<!, )(?P<what>no more (?!than|errors|bugs|crashes|warnings|problems|issues|time|questions|ideas|info|"
            r"money|milk)\w+.{3,})",
            kind=Kind.FEEDBACK,
        ),
        *(make_request_rule(RequestCategory.REQUEST, at, kind=Kind.FEEDBACK) for at in (*NORMS, *SLOT_NORMS)),
        *(make_request_rule(RequestCategory.CORRECTION, at, RuleNeed.WHOLE, kind=Kind.FEEDBACK) for at in ENDINGS),
        *(
            make_request_rule(RequestCategory.CORRECTION, at, RuleNeed.ANSWERED, RuleNeed.WHOLE, kind=Kind.FEEDBACK)
            for at in (*CORRECTIONS_WHOLE, *CORRECTIONS_NOUN)
        ),
        *(
            make_request_rule(
                RequestCategory.CORRECTION, at, RuleNeed.ANSWERED, RuleNeed.WHOLE, RuleNeed.SOUND, kind=Kind.FEEDBACK
            )
            for at in (*CORRECTIONS_NORM, *MANNER_NORMS)
        ),
        *(
            make_request_rule(RequestCategory.CORRECTION, at, RuleNeed.ANSWERED, kind=Kind.FEEDBACK)
            for at in (*CORRECTIONS_PLAIN, *BARE_PROHIBITION, *MANNER)
        ),
        *(
            make_request_rule(RequestCategory.CORRECTION, at, RuleNeed.ANSWERED, RuleNeed.GENERAL, kind=Kind.FEEDBACK)
            for at in CORRECTIONS_GENERAL
        ),
        make_request_rule(
            RequestCategory.DECISION,
            rf"(?P<what>{AND_NOW}{WHO_DECIDES} (?!.*\b(?:approach|option [a-z\d]|variant|earlier|a map|a list|"
            rf"an array|here instead)\b)(?!never|not|haven't|hadn't|nothing|didn't)(?:(?!never|not|"
            rf"nothing)\w+ ){{0,2}}{DECIDED}(?! nothing| the flow).+)",
            RuleNeed.WHOLE,
            kind=Kind.PROJECT,
        ),
        make_request_rule(
            RequestCategory.DECISION,
            r"(?P<what>.{10,}, (?:\w+ |the \w+ )?(?:decided|agreed|settled)(?: that| so)? ?(?:(?:in|at|by|with|"
            r"on) (?:the|our|yesterday|last) .+|$))",
            RuleNeed.WHOLE,
            kind=Kind.PROJECT,
        ),
        *(make_request_rule(RequestCategory.DECISION, at, RuleNeed.WHOLE, kind=Kind.PROJECT) for at in SETTLED),
        *(make_request_rule(RequestCategory.POINTER, at, RuleNeed.WHOLE, kind=Kind.REFERENCE) for at in POINTERS),
        *(make_request_rule(RequestCategory.IDENTITY, at, kind=Kind.USER) for at in IDENTITIES),
        make_request_rule(
            RequestCategory.DEADLINE,
            rf"(?P<what>{AND_NOW}(?!i\b|i'm\b|deadline\s*:|my (?!{OWN_WORK})|i've\b|{VERB} (?:(?:a|an|the|me|it|this|"
            rf"that|your|my|to|in|on)\b)|"
            rf".*\b(?:every|each) (?:\w+day|week|month|sprint|quarter|time)\b|.*(?:, (?:please )?[a-z]+ (?:it|"
            rf"them)[.!]*$|\bdue to\b|\b(?:ship|release|launch)\w* (?:it|this)\b)|"
            rf".*\b(?:since|went|appeared|expired|broken?|fail\w*|crash\w*|happened|passed|(?:was|were)(?! (?:moved|"
            rf"postponed|extended|pushed|set|announced|scheduled)))\b)(?:(?!\bi\b|\bmy (?!{OWN_WORK})|\bi'|"
            rf", so\b).){{0,90}}?\b{DUE}\b.+)",
            RuleNeed.WHOLE,
            RuleNeed.DATED,
            kind=Kind.PROJECT,
        ),
        make_request_rule(
            RequestCategory.DECISION,
            r"(?P<what>(?:from|starting|as of|beginning|effective) .{3,20}?(?: on(?:wards)?)?,? (?:we|the|our|all|"
            r"support|every\w*|\w+ team)\b.+)",
            RuleNeed.WHOLE,
            RuleNeed.DATED,
            kind=Kind.PROJECT,
        ),
        make_request_rule(
            RequestCategory.DEADLINE,
            r"(?P<what>(?:we|the team|everyone|everything|all \w+) (?:have|has|need|needs|must) .+\b(?:by|until|"
            r"before) .+)",
            RuleNeed.WHOLE,
            RuleNeed.DATED,
            kind=Kind.PROJECT,
        ),
    ),
    asks=r"(?:can|could|shall) we (?:\w+ )?(?:agree|settle|make it a rule)\b|(?:from now on|in (?:the )?future|"
    r"going forward|next time)\b.*\b(?:can|could|would|will) you\b|"
    r"^(?=.*(?:\bthat\b|something|:|\bnote\b|\bmind\b|always|never|from now on|in future|forget|remember (?:not|to|"
    r"this|that|it)|"
    r"every|each|whenever|(?:can|could|would|will) (?:you|u) (?:please )?(?:stop|quit|not|avoid|drop)))(?:\W*(?:ok|"
    r"hey|hi|please|also|and|so|btw|by the way),?\s*)*(?:can|could|would|will) (?:you|u)\b|\bplease\b.*\bremember\b",
    begs=r"(?:\W*(?:ok|hey|hi|please|also|and|so|btw|seriously|again),?\s*)*(?:can|could|would|will) (?:you|u|we) "
    r"(?:please |pls |"
    r"just )*(?:stop|quit|not|avoid|drop|skip|cut|leave out|lay off|refrain|always|never|only ever|from now on|"
    r"in future)\b",
    breaks=r"\S\s+(?=(?:and|but|then|plus|so) (?:please |also |just |pls |do )*(?:remember|from now on|in future|next "
    r"time|going forward|henceforth|never|always|note that|keep in mind|don't forget|(?:don't|do not|"
    r"stop) .*\b(?:any ?more|again|ever)\b))",
    ails=AILING,
    tags=r"(?:,|\.| -)? (?:ok|okay|alright|deal|clear|understood|got it|agreed|please|pls|thanks|will you|"
    r"would you)\?+$",
    widens=r"\bnot (?:just|only) (?:(?:for|in|on|to) )?(?:this (?:one|time|file|once|pr|task)|here|now|today)\b|"
    r"\b(?:now|today|here|this one) and (?:later|always|every\w*|those to come|in future|tomorrow|elsewhere|all \w+)\b|"
    r"\bnot (?:now|today|here)(?: and|,| or) not (?:later|ever|tomorrow|anywhere)\b",
    questions=r"(?:and |so |but |ok |hey |btw )*(?:what|how|why|who|whom|whose|where|which|is (?:it|there|this|that)|"
    r"are (?:there|you|we)|do (?:you|we|i)|did (?:you|we|i)|does|"
    r"should (?:i|we)|can i|could i|would (?:it|you|that)|have you|has|was|were|am i|remind me)\b",
    reported=r"\b(?:sound|nicer|friendlier|wording|rewrite|rephrase|proofread|grammar|paraphrase|summari[sz]e|"
    r"correct this|caption|headline|told (?:me|him|her|them)|novel|essay|"
    r"rules? (?:to|for|in) the|config (?:where|that)|firewall|cron|suppose|assume|assuming|let's say|"
    r"hypothetically|what if|in the game|role ?play|he|she|they|someone|somebody|captain|says?|said that|if i|"
    r"when i (?:tell|say|ask)|(?:would|could) it|supposing|imagine|pretend|translate|song|movie|film|title|scene|"
    r"poem|story|lyrics|"
    r"comment|error|warning|draft|compose|write (?:a|an|the|me)|e?mail|announce\w*|tweet|letter|slogan|message|"
    r"log says|docs? say|readme says|changelog says|play|called|named)\b",
    refusals=r"\b(?:(?:don't|do not|dont|no need to|needn't|you don't need to|you don't have to|please don't|"
    r"shouldn't) (?:\w+ )?(?:save|store|remember|memori[sz]e|record|retain) (?:this|that|it|any of (?:this|it)|"
    r"anything|what i)\b"
    r"(?! (?:in|to|into) (?:the|a|any) (?!memory)\w+)|(?:don't|do not|dont|please don't|never) (?:put|write|add|note|"
    r"keep) (?:this|that|it|any of this) (?:(?:in|to|into) (?:your |the )?memory|down\b|anywhere)|"
    r"(?:don't|do not) (?:have|need) to (?:remember|save|store|memori[sz]e|note)(?!.*any ?(?:more|longer))|(?:don't|"
    r"do not|dont) memori[sz]e\b|(?:not|isn't|nothing) (?:worth|for|to) (?:remember\w*|saving|storing|your memory|"
    r"memory)|without (?:saving|remembering|storing) (?:this|that|it)|forget (?:that )?i (?:said|mentioned|asked|told)|"
    r"(?:don't|do not|dont|no need to) (?:\w+ ){0,2}(?:save|store|remember|memori[sz]e|record|note|"
    r"write)(?: down)?(?: the following|:| any of)|(?:don't|do not|dont|no need to) note (?:this|that|it)\b|"
    r"between (?:us|you and me)|off the record|forget (?:what|everything|all) (?:i|we) (?:just )?(?:said|wrote|"
    r"told you)(?: (?:before|earlier|just now))?\s*(?:[.!,]|$))",
    tasks=r"(?:\bwe (?:always|never|still|sometimes) (?:get|got|see|had)\b|\b(?:that's|this is|which is|that is) "
    r"(?:the|a|why|our) (?:bug|problem|issue|reason|error|cause)\b|"
    r"\b(?:in|for|on|to) this (?!kind|sort|type|app\b|application|library|code\b|department|project|repo\w*|codebase|"
    r"code base|team|company|org\w*|house|shop|product|monorepo|workspace|service|"
    r"point|day|moment|way)\w+|\bthe (?:\w+ )?(?:button|dialog|popup|modal|tooltip|dropdown|checkbox|sidebar|menu|"
    r"header|footer|navbar|logo|icon|"
    r"tab|banner|cursor|slider|spinner|counter|rows?|list|grid|image|font|background|screen|title)\b|\b\w+ rows\b|"
    r"\w\(\)|, so (?:please )?(?:update|"
    r"rename|change|adapt|add|fix|remove|replace|bump|move|ignore|leave)\b)|\b(?:(?:the|this|that) (?:function|method|"
    r"variable|"
    r"loop|handler|constructor|callback|getter|setter|parameter|argument|regex|struct)\b(?! names?)|finally block|"
    r"null|undefined|(?-i:None|True|False)|this (?:pr|pull request|function|file|class|method|test|branch|commit|"
    r"line|loop|module|component|page|query|one|task|ticket|change|patch|migration|refactoring|endpoint|call|story|"
    r"essay|email|letter|text|article|paragraph|list|plan|recipe|conversation)|"
    r"that (?:table|file|function|class|line|branch|commit|test|method|variable|column|row|one|part|section|sentence)|"
    r"(?<!ing )(?<!ike )(?<!hate )(?<!want )these (?:\w+ )?(?:calls|lines|files|tests|functions|changes|commits|\w+s)|"
    r"those (?:\w+ )?\w+s\b|yet|for now|right now|for the moment|(?<!from )(?<!as of )(?<!starting )today(?! on)|this "
    r"time|this once|just once|"
    r"(?:below|above)(?! (?:\d+|each|every|the|all|it)\b)|the following (?:text|code|list)|line \d+|lines \d+|"
    r"rename (?:it|the)|it back|them back|"
    r"split it|the (?:loop|index) |(?:first|second|third|last|next) (?:argument|parameter|paragraph|version|option|"
    r"line)|in the readme|in the changelog|to a file|step \d|so far|compile|before you (?:commit|push) (?:this|it|"
    r"that)|"
    r"later on we|until i'm done|until (?:\w+ ){1,3}(?:is|are) \w+|until (?:i'm|i am|i've|i have|we're|we've|tomorrow|"
    r"tonight|then|monday)|"
    r"before (?:i'm|i am|i've) |for (?:once|tonight|tomorrow)|one-off|in this case|at this stage|(?:on|in|"
    r"for) the first "
    r"(?:pass|draft|version|round)|for the (?:demo|meeting|call|spike|prototype|slide|poc)|in a (?:hurry|rush)|"
    r"i'm (?:late|busy|on (?:the|a) \w+)|no time|this (?:week|round|afternoon|evening|morning))\b",
    states=r"\b(?:(?:i|we)(?:'ve| have)? (?:just|already) (?:\w+ed|done|run|made|written|put|set)\b|(?:the )?(?:pr|"
    r"branch|build|ci|pipeline|ticket|deploy\w*) (?:is|are) "
    r"(?:still|currently|now|already)\b|(?:for|at) the moment|tests? \d[\d, and]* (?:is|are)|(?:on|in) the old branch)|"
    r"[<>=]=? ?\d|\b[a-z] (?:is|be) an?\b|\b(?:the (?:loop|array|list|index|variable|string|parameter|argument|"
    r"pointer|iterator|regex|return value|input|counter) (?:is|can|may|starts?|must|has)|in this (?:chapter|story|"
    r"scene|game|exercise|example|paragraph|poem)|(?:only |just )?for (?:today|this (?:session|chat|conversation|"
    r"afternoon|morning))(?: only)?|today only|temporarily|just for now|for the rest of (?:the day|today|"
    r"this session)|step \d|(?:we're|we are|i'm|i am) still (?:on|in|at|working|waiting)|(?:is|"
    r"are) currently (?:red|broken|failing|down|green|running)|this (?:function|file|class|loop|method|variable|"
    r"branch|pr|line)\b|haven't (?:pushed|committed|merged)|(?:of|in|on) this (?:refactoring|branch|pr|task|"
    r"migration|ticket)|right now|for now|currently (?:on|at|in) (?:the )?(?:branch|step)|before you (?:commit|"
    r"push) (?:this|it)|in (?:that|this) function|we're at|we are at|"
    r"in the (?:readme|changelog|docs|config)\b|for this (?:question|task|conversation|session|chat|story|exercise))\b",
    idle=r"(?:(?:the|this) (?:variable|function|loop|index|class|method|parameter|counter|job|script|server|app|page)|"
    r"let [a-z] be|(?:the )?(?:port|site|service|database|url|hero)\b|cars|everything|things|we'll|i|i'm|i'll|"
    r"i will|i am|i can|i could|he|she|they|it (?:is|was|\w+s)|it'll|it will|maybe|perhaps|we might|we could|we hope|"
    r"let's see|the loop|plugins)\b(?! (?:want|prefer|need|expect|would like|only want|don't want|'d like))",
    general=GENERAL,
    pronouns=r"(?:please |just |always |never |only )*(?:[a-z-]+ (?:it|them)\b|[a-z-]+ (?:[\w-]+ ){1,3}(?:for|instead "
    r"of|like|with) (?:that|this|it|those|these)\b(?! \w)|(?:(?:do|keep|use|leave|touch|change|"
    r"handle|make|commit|put|write|run|apply|avoid|skip|treat|push|merge) )?(?:(?:that|this|it|so|them|those|"
    r"these)\b(?! (?:project|repo|codebase|team|\w+ (?:is|are|has|have|lives))\b)|the (?:one|ones|same|new one)\b))",
    lasts=rf"\b{LATER}\b",
    plays=r"(?:act as|pretend|imagine you|you are (?:now )?(?:an? |the |my )|you're (?:now )?(?:an? |my )|"
    r"i want you to act|let's (?:play|pretend)|roleplay|your task is|your role)\b",
    orders=r"(?:please )?(?:can you |could you )?(?:write|draft|create|make|generate|compose|give me|build|implement|"
    r"add|sort|translate|summari[sz]e|explain|design|plan|suggest|fix|help)\b",
    vouches=r"\b(?:rule|policy|convention|standard|always|every time|how we (?:do|work)|applies (?:to|every)|we "
    r"(?:switched|moved|migrated) (?!on)|in general|from now on)\b",
    refers=r"\b(?:it|they|them|that|those)\b|\bone[.!]*$",
    that=r"(?:[\s,:–—-]|(?:can|could|would|will) you\b|that\b(?!')|the fact that\b|to\b(?= always)|please\b|pls\b|"
    r"also\b|both\b(?=:))+",
    tail=r"[\s,]*\b(?:please|pls|plz|thanks|thank you|thx|ok|okay|will you|would you|alright)[.!?\s]*$",
    why=r"[,;:]?\s+(?:because|since(?! \d| (?:mon|tues|wednes|thurs|fri|satur|sun)day| last| version| v\d)|cause|"
    r"given that|as (?=we|they|it|our|the))\s+(?P<why>.{8,})$",
    places=PLACES,
    looks=LOOKS,
    mine=MINE,
    about_me=ABOUT_ME,
    prefers=PREFERS,
    directs=DIRECTS,
    goes_on=r"(?:i can|i could|i know|i already|i do)\b.*\b(?:skip|stop|leave|drop|without) (?:them|it|that)\b|"
    r"(?!(?:i|i'm|i've|that's|that is|this|you|and then|then|also please|can|could|thanks|revert|undo|fix|"
    r"redo|change it|split|rename|please (?:change|revert|fix|undo|redo)|so|ok|what|why|how|now)\b)"
    r"(?:it's|they're|it belongs|(?:just |please |only |always |instead,? )*[\w`\"'/-]+ )",
    praise=r"\b(?:perfect|great|nice|awesome|good|excellent|exactly|keep|doing|do|done|continue|stick|carry|more|like|"
    r"love|always|please|yes|yep|way|handle|works?|going|forward|from now on|right|call|choice|thing|job|want|"
    r"every|time|next|again|that's|it's|this|that|in|future|super|really|well|for|me|thanks|up|level|style)\b",
    negates=r"\b(?:not|no|never|don't|dont|doesn't|isn't|aren't|won't|can't|cannot|without|stop|avoid|nothing|none|"
    r"neither|shouldn't|mustn't|refrain|quit)\b",
    links=words_of("of to in on at by for from with into onto over under between through per via about"),
    empty=words_of(
        "a an the this that these those and or but so if then than as is are was were be been being am has have had "
        "do does did will would shall should can could may might must it its "
        "we us our you your i i'm im i've me my mine he she they them their there here very quite also just too "
        "please pls really any some each all every both what when whenever which who there's "
        "it's we're we've that's you're yes no, user user's"
    ),
)
