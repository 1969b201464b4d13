"""English: who the user is, what is due or decided, where to look. "I'm a nurse", "we go live on Monday"."""

from memdir.language.grammar import any_of
from memdir.rules.english_words import AND_NOW
from memdir.rules.systems import PLACED, SYSTEM

ROLE = any_of(
    r"""developer, dev, engineer, programmer, designer, architect, manager, lead, analyst, scientist, researcher,
    student,
    teacher, professor, lecturer, nurse, doctor, physician, lawyer, attorney, writer, editor, journalist, author,
    consultant, contractor, freelancer, founder, ceo, cto, cfo, director, administrator, admin, sysadmin, sre, dba,
    tester, qa, intern, apprentice, accountant, biologist, chemist, physicist, mathematician, statistician, economist,
    psychologist, therapist, librarian, translator, photographer, artist, musician, chef, cook, farmer, pilot,
    electrician,
    mechanic, technician, specialist, owner, maintainer, contributor, hobbyist, beginner, novice, newcomer, expert,
    veteran,
    phd, postdoc, undergrad, undergraduate, pharmacist, dentist, veterinarian, paramedic, firefighter, police officer,
    social worker, marketer, recruiter, salesperson, bookkeeper, realtor, vegetarian, vegan, retiree, parent,
    single (?:mom|dad|mother|father|parent), native speaker, \w+ speaker, (?:data|backend|frontend|full[- ]?stack) \w+,
    solo dev\w*, tech lead, team lead, product owner, scrum master, bioinformatician"""
)
TRAIT = any_of(
    r"""vegetarian, vegan, dyslexic, colou?r[- ]?blind, blind, deaf, hard of hearing, left[- ]handed, diabetic, celiac,
    coeliac, autistic, pregnant, retired, self[- ]taught, self[- ]employed, lactose[- ]intolerant,
    gluten[- ]intolerant,
    allergic to [^,.]+, bilingual, new to (?!this (?:error|bug))[^,.]+, based in [^,.]+, located in [^,.]+,
    originally from [^,.]+, fluent in [^,.]+, visually impaired"""
)
NOT_A_ROLE = r"(?!bit\b|little\b|big\b|huge\b|fan\b|lot\b|few\b|one\b|while\b|total mess\b)"
NOT_BEFORE_ROLE = (
    r"(?:for|to|in|on|of|with|at|and|that|who|looking|interested|planning|trying|from|by|than|new|"
    r"potential|future|previous|former|my|your|his|her|their)\b"
)
DUE = any_of(
    r"""deadline, due, freez\w+, freeze, frozen, release(?! notes)\w*, ships?, shipping, launch\w*, go(?:es|ing)? live,
    go-live, goes out, expires?, expir(?:y|ing), sunset\w*, end of life, eol, cut(?:s|ting)? (?:a|the|over|off)\b,
    cutover,
    migrat\w+, rollout, roll(?:s|ing)? out, demo, audit, handover, hand over, code complete, has to be, have to be,
    need(?:s)? to be, must be, switch(?:ed|es|ing)? off, shut(?:s|ting)? down, turn(?:ed|s) off, deprecat\w+, renew\w*,
    stops? working, switch(?:es|ing)? (?:to|over), (?:pilot|sprint|project|beta|trial|phase|onboarding|training|
    support|course)\b.{0,20}\b(?:starts?|begins?|ends?), (?:we|you) (?:only )?have until, contract .{0,25}ends,
    (?:support|trial|freeze|contract|licen[sc]e|sprint|phase|pilot|test)\b.{0,25}\b(?:ends?|starts?|begins?) (?:on|in|
    at|next|this), ends on, runs? out,
    end of support, review on, kick[- ]?off, sprint ends, go/no-go, submission, submit\w*,
    deliverables?, moved to, pushed (?:back )?to, postponed (?:to|until), merge window, maintenance window"""
)
DECIDED = any_of(
    r"""decided(?! whether| if)(?:(?: \w+){0,3} (?:to|against|on|that|in|not)\b|:|,), agreed(?: with .{2,
    30}?)?(?: (?:to|on|that|today|yesterday|last)\b|:|,),
    chose\b, (?:settled|signed off|voted) (?:on|for|against), picked .{2,30} over, (?:cancell?ed|approved|rejected|
    vetoed|scrapped|shelved|postponed|
    dropped|
    killed|paused), ruled (?:that|out), told us (?:\w+ ){0,2}(?:that|to|not), (?:won't|will not|no longer) support,
    only support, going with, (?:are|'re) (?:moving|switching|migrating) (?:from|to|away|over|off), (?:dropping|
    sunsetting|retiring|discontinuing|ending) (?!by|off|in\b)"""
)
WHO_DECIDES = any_of(
    r"""we(?:'ve| have|'re| are)?(?: all| just| finally| now)*, the (?:\w+ )?(?:team|board|client|customer|council|
    committee),
    management, leadership, legal, qa, ops, infra, hr, design, sales, the vendor, devops, engineering, support,
    security, product, marketing, finance, compliance, procurement, upper management,
    the (?:ceo|cto|vp|lawyers|architects|investors|boss|steering \w+), (?:my|our) (?:boss|manager|team|client|lead|cto|
    ceo),
    (?:yesterday|today|last \w+|this (?:morning|week)|on \w+day)[,]? (?:we|the \w+),
    it was, it's been, it has been, as of [^,]{3,30} we"""
)
# What is decided without a word on who did.
SETTLED = (
    r"(?P<what>(?!.*\b(?:runtime|option [a-z\d])\b)(?:[^,:]{2,40} )?(?:it's|it is|that's|that is|it has been) (?:now |"
    r"finally )?(?:settled|decided|official|final|agreed)(?::|,| -| –| —| that\b) .{8,})",
    r"(?P<what>(?:the|our) (?:final |board's |team's |client's )?(?:verdict|decision|vote|"
    r"outcome)(?: from [\w ]{2,20})? "
    r"(?:is in\b|is final\b|is made\b|was to\b|is to\b|is that\b|is:|was:|was that\b).{6,})",
    r"(?P<what>(?:so |and )?(?:in the end|after (?:long|much|some|all) [\w ]{3,20}),? (?:we|the team|they) (?:go|went|"
    r"stay|stayed|stick|stuck|chose|picked|settled|opted) .{6,})",
)
# Whose things are not the person's own.
OTHERS = r"(?:\w+ )?(?:clients?|customers?|company|employer|team|project|app|servers?|boss|manager)\b"
# What of one's own may be due as a project.
OWN_WORK = any_of(
    r"""(?:\w+ )?(?:thesis|dissertation|paper|grant|proposal|exam|project|talk|presentation|release|submission|
    manuscript|
    contract|report|team|client|app|book|course)\b"""
)
IDENTITIES = (
    r"(?P<what>(?:i'm|i am) coming from (?-i:[A-Z])\w+.*|i (?:just |recently |only )?(?:switched|moved|"
    r"came) (?:over )?from (?-i:[A-Z])\w+ to (?-i:[A-Z])\w+.*)",
    r"(?P<what>i(?:'ve| have) never (?:used|touched|written|worked with|programmed in) (?-i:[A-Z])\w+.*)",
    r"(?P<what>i know (?-i:[A-Z])[\w+#]* (?:well|best|inside out|by heart|but)\b.*)",
    r"(?P<what>(?:i'm|i am) (?:more|most|really|not very) (?:comfortable|at home|familiar|fluent) (?:with|"
    r"in) (?-i:[A-Z])\w*.*)",
    r"(?P<what>i(?:'ve| have) got (?:\w+ ){1,3}years of .+)",
    r"(?P<what>(?:i'm|i am) on (?:a |an )?(?-i:Mac|macOS|Windows|Linux|Ubuntu|WSL)\b(?!.*\b(?:error|fails?|"
    r"broken)\b).*)",
    r"(?P<what>i (?:come|came) (?:over )?from (?-i:[A-Z])\w+.*)",
    r"(?P<what>(?:retired|former|freelance|self-taught|semi-retired|amateur|aspiring|part-time|junior|senior|"
    r"hobby) (?:\w+ ){0,2}\w+(?: here)?, (?:learning|working|new to|coding|doing|trying|teaching|living|based)\b.+)",
    r"(?P<what>(?:i'm|i am) (?:an? )?(?:absolute |complete |total )?(?:beginner|newbie|novice|noob|rookie)\b.*)",
    r"(?P<what>i (?:come|came) from an? .{2,30} background\b.*)",
    r"(?P<what>(?:i'm|i am) (?:currently |still )?learning (?-i:[A-Z])\w+\b.*)",
    r"(?P<what>i (?:studied|majored in|graduated in|trained as|have a (?:degree|phd|master's|bachelor's)) (?!it\b|"
    r"the\b|this\b).+)",
    r"(?P<what>we(?:'re| are) an? (?:small |tiny |big )?(?:team|group|company|startup|family|couple) of .+)",
    r"(?P<what>(?:i'm|i am) (?:an? )?(?:one-(?:person|man|woman)|.{2,40} by (?:trade|profession|training))\b.*)",
    r"(?P<what>i (?:usually|normally|only|always)? ?work (?:from )?\d{1,2}.+)",
    r"(?P<what>i (?:can't|cannot) (?:see colou?rs|hear|eat|drink|drive|tolerate)\b(?! (?:the|it|you|this|that)\b).*)",
    r"(?P<what>i (?:prefer|like|want) to be (?:called|addressed)\b.+)",
    rf"(?P<what>(?:i'm|im|i am) (?:(?:actually|also|currently|just|really) )?(?:an? |the |"
    rf"one of the ){NOT_A_ROLE}(?:(?!{NOT_BEFORE_ROLE})[\w/+#.-]+ ){{0,4}}?{ROLE}\b(?!'s| of the (?:day|week|"
    rf"problem))(?! (?:error|question|issue|problem|mode|branch|version|task)).*)",
    rf"(?P<what>(?:i'm|im|i am) (?:(?:also|a|partially|fully|severely|completely|totally) )?{TRAIT}\b.*)",
    rf"(?P<what>as an? (?:[\w/+#-]+ ){{0,3}}{ROLE},? i\b(?! (?:want|would|need|should|can) (?:to|you|be)).+)",
    r"(?P<what>i(?:'ve| have) (?:been |mostly |mainly |only )*(?:writing|coding|programming|working|doing|developing|"
    r"teaching|managing|an? \w+|in) (?!it\b|this\b|that\b|the same\b)(?:(?!\bi\b|\bit\b).){2,60}?\b(?:for|"
    r"since) (?:(?!\bi\b).){0,30}(?:years?|decades?|\d{4})\b.*)",
    r"(?P<what>i (?:did|spent|worked|wrote|programmed) (?:\w+ )?(?:\d+|one|two|three|four|five|six|seven|eight|nine|"
    r"ten|fifteen|twenty|several|many)\+? years?\b.+)",
    r"(?P<what>i have (?:[\w+]+ ){0,3}years (?:of )?(?:[\w-]+ ){0,3}experience\b.+)",
    r"(?P<what>i(?:'ve| have) (?:worked|programmed|coded|written|taught|used|built) (?:(?!\bit\b|"
    r"\bi\b).){2,40}\bfor (?:\w+ ){0,3}(?:years?|decades?)\b.*)",
    r"(?P<what>i teach (?!it|you|him|her|them)\w+.+)",
    r"(?P<what>\w+ (?:is|isn't) (?:not )?my (?:first|native|second|third|mother) (?:language|tongue)\b.*)",
    r"(?P<what>my (?:native|first|mother) (?:language|tongue) is .+)",
    r"(?P<what>my (?:name|job|role|profession|background|time ?zone|pronouns?|day job|job title|field) (?:is|"
    r"are) (?!not\b|missing|wrong|empty|shown|hidden|displayed|never|null|too|to\b|still).+)",
    r"(?P<what>i (?!live for)(?:work|live|study|teach|studied) (?:as|at|in|for|from|mostly|mainly|remotely|"
    r"part[- ]time|full[- ]time) (?!a (?:hurry|rush)|the (?:morning|moment))\S+.*)",
    r"(?P<what>i (?:maintain (?!that\b|the (?:current|old))|look after |am responsible for |am in charge of |"
    r"oversee )(?:this|the|our|an?|all|several|about|\w+ ).{4,})",
    r"(?P<what>i (?:own|lead|run|manage|head|founded|co-?founded) (?:this|the|our|an?|my own|several|two|"
    r"three) (?:[\w-]+ ){0,3}(?:team|company|business|shop|agency|studio|department|startup|group|engineers|"
    r"developers|project|product|service|blog|newsletter|bakery|farm|cafe|café|bar|gym|school|firm|salon|restaurant|"
    r"clinic|lab|practice|store|library|platform)\b.*)",
    r"(?P<what>i(?:'m| am) (?:responsible for|in charge of|the only (?:\w+ ){0,2}(?:dev\w*|engineer|person|one|"
    r"maintainer|designer|admin) (?:on|in|who|here|for) (?!my)|on call for|new to (?:this|the) (?:project|codebase|"
    r"team)) .+)",
    r"(?P<what>i (?:mostly|mainly|primarily|only|rarely|barely) (?:write|code in|work (?:with|on|in)|program in|know|"
    r"speak) .+)",
    r"(?P<what>i (?:don't|do not|barely|hardly) (?:know any|speak|read) (?!about|that|what|how|it)\w+.*)",
)
POINTERS = (
    rf"(?P<what>{AND_NOW}(?!.*\bhere(?:'s| is| are)\b|(?:the|this|that) (?:error|exception|crash|bug|trace|"
    rf"problem)\b)(?!(?:i|i'm|i've|i'd|i'll|draft|compose|tell|ask|add|open|put|send|post|write|create|make|"
    rf"move|copy|upload|check|look)\b)[^,;]{{3,80}}? (?:{PLACED['en']}) (?:the |our |a |"
    rf"my )?(?:\w+ ){{0,2}}?{SYSTEM}.*)",
    rf"(?P<what>(?:you (?:can|will) find|you'll find|look for|find|we (?:track|keep|document|log|file|collect|store|"
    rf"post|report|discuss|have)) (?!it\b|this\b).{{3,60}}? (?:in|on|at|under|via) (?:the |"
    rf"our )?(?:\w+ ){{0,2}}?{SYSTEM}.*)",
    rf"(?P<what>(?:for|with) (?:\w+ )?(?:questions?|issues?|problems?|help|anything|access|bugs?|requests?|details|"
    rf"more|incidents?|context)\b.{{0,50}}?,? .*{SYSTEM}.*)",
    rf"(?P<what>(?:ask|post|look|check|report|file|go|search|see)(?: \w+)? (?:in|on|to|at|under) (?:the |"
    rf"our )?(?:\w+ ){{0,2}}?{SYSTEM}\S*\b.*\b(?:if|when|whenever|for|before|first)\b.+)",
    r"(?P<what>(?!.*\b(?:this|here|link|look|see|read|open|check)\b.*:)(?:the |our )?[\w -]{3,40}: *https?://\S+.*)",
    rf"(?P<what>if you (?:need|want|look for|are looking for|miss) .{{3,60}},? .*{SYSTEM}.*)",
    rf"(?P<what>(?:the |our )?{SYSTEM}\S* is (?:the (?!bug|error|issue|ticket|one|problem|link)|our |where |what ).+)",
    rf"(?P<what>{AND_NOW}(?:the |our )[^,;]{{3,60}}? (?:is|are)(?: at| under)? {SYSTEM}.*)",
)
