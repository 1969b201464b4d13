"""English: what sort of thing was said, by how it begins: who the user is, how to work, or where to look."""

from memdir.rules.english_facts import OTHERS
from memdir.rules.english_words import AGENT_THINGS, CLAUSE, VERB
from memdir.rules.systems import SYSTEM

# A system outside, as a place: "in Jira", "the board is grafana.internal/d/1"; "the Jira export" is none.
PLACES = (
    rf"(?:\b(?:in|on|at|via|to|into|onto|under|through|from|is|are|see|check|called|channel|project|we use)"
    rf"(?: (?:the|our|a|my))?(?: [\w-]+){{0,2}}? |[:(,] ?){SYSTEM}|{SYSTEM}\S*(?: \w+)? (?:is|has) (?:the|our|where|"
    rf"what|all)\b|^(?:the |our )?{SYSTEM}\S*(?:$|[ ,]+(?:is|for|board|project|space|channel|page|under)\b)"
)
# Worded as a habit or an order, but a place to look all the same.
LOOKS = (
    r"(?!.*\b(?:never|always|not|don't|instead)\b)(?:we (?:use|keep|track|put|store|document|file|log|post|discuss)|"
    r"(?:ask|look|check|search|go|post|report)(?: \w+)? (?:in|on|at|to|under))\b"
)
# About the person, though it does not begin with them.
MINE = (
    rf"\b(?:i'm|i am|i've|i (?:live|work|am|speak|use|have|write)|my (?!{OTHERS})|mine|myself)\b|"
    r"^(?:mother|father|dad|mom|mum) of\b|\bmy first language\b"
)
ABOUT_ME = (
    rf"(?:(?:please )?(?:call me|address me as|refer to me)\b|i|i'm|im|i've|i'd|my(?! {OTHERS})|me)\b(?!'s not how)|"
    r"as an? \w+.*,? i\b"
)
# What the person likes of the way of working; what they like to eat is about them.
PREFERS = (
    rf"i(?:'d| would| really| strongly| always| generally| never| also| personally| just| only| do| much| still)* "
    rf"(?:prefer|rather|like|can't stand|can't bear|want|don't want|do not want|dont want|don't like|do not like|"
    rf"dont like|don't need|"
    rf"don't care for|dislike|hate|love|need you|expect|appreciate)\b(?! (?:to )?(?:work|start|live|travel|cook|play|"
    rf"be called|be addressed|being called|hik|climb|swim|cycl|meet|"
    rf"eat|drink|coffee|tea|music|cats|dogs|sports?|football|running|books|movies|games|meat|fish|seafood|spicy|"
    rf"sweets?|mornings|weekends|meetings)\w*\b)|my (?:\w+ )?(?:preference|preferred)\b|"
    rf"i(?:'m| am) (?:not a (?:big |huge )?fan|tired|sick) of\b|i \w+ [^,]{{3,40}}, (?:and )?you (?:do|write|only|just|"
    rf"don't|never|may)\b|my (?:\w+ )?{AGENT_THINGS} (?:should|must|need|have to|go|always|never|in )"
)
# How to work: orders, habits, norms for the agent's own things, wishes without a verb.
DIRECTS = (
    rf"(?:please |our (?:\w+ )?(?:convention|rule|policy|style|standard) is |"
    rf"you (?:may|can) (?:not|never|always|only)\b|you (?:must|should|have to|need to) \w+|(?:less|fewer|"
    rf"more|shorter) [\w ]+, "
    rf"(?:more|less|fewer) |(?:the |every |all |any |each )?(?:[\w-]+ )?[\w-]+ you (?:write|make|create|open|send|"
    rf"add) |you (?:can't|mustn't|shouldn't)\b|"
    rf"(?:when|if|whenever|before|after) (?:you|we) [^,]{{3,50}}, (?:please |always |never )*(?:{VERB}|don't|"
    rf"never)\b|[^,]{{4,50}}, never \w+(?: \w+)?[.!]*$|we (?!(?:(?:only|always|never|don't|do not) ){{0,2}}(?:sell|"
    rf"bill|"
    rf"use .*\bin prod\w*|charge|support|have|offer|invoice|pay|hire|deliver|get|receive|serve|refund|own|host|open|"
    rf"close)\b)(?:always |never |only |usually )?(?:do not|don't|never|"
    rf"always|only|use|squash|merge|rebase|write|name|format|commit|test|prefer|avoid|put|keep|follow|want|call|say|"
    rf"spell|lint|document|review|indent|mock|tag|version|sign|require|do code|stick)\b|"
    rf"always\b|never\b|do not\b|don't\b|when in doubt\b|(?:each|every|all|any) (?:[\w-]+ ){{0,2}}(?:{AGENT_THINGS}|"
    rf"files?|classes|modules?|quer(?:y|ies)|fixtures?|bug ?fix(?:es)?|fix(?:es)?|change|"
    rf"features?) (?:[\w-]+ ){{0,3}}(?:needs?|must|"
    rf"should|gets?|has to|have to|goes|go)\b|no (?!one|body|docker)\w+ (?:\w+ )?(?:in|on|for)\b|no (?!one|"
    rf"body)(?:more |"
    rf"new )?(?:\w+ ){{0,2}}\w+s\b|{VERB}\b(?! (?:(?!(?:the|an?|your|my|our|all|every|it|them|that|which|if|when|and|"
    rf"so)\b)[\w-]+ ){{0,3}}(?:is|are|has|have|was|were|runs?|takes?|needs?|goes|starts?|ends?|happens?|must|will|only|"
    rf"lives?|expires?|gets?|closes|opens|costs?|comes?|requires?|works|wants|owns|belongs?|uses|can|can't|cannot|"
    rf"won't|should|doesn't|don't)\b)|"
    rf"(?:all |every |any |new )*{AGENT_THINGS} (?:to me )?(?:must|should|come|belong|start|end|begin|always|never|"
    rf"are (?:written|always|never|in|named|squash)|is (?:written|always|never)|need to|have to|go (?:in|under|into|"
    rf"to)|use|follow|contain|in |get |without|with)\b|(?:our|the|my) (?:\w+ )?{AGENT_THINGS} (?:must|should|always|"
    rf"never|need to|have to|start with|end with|begin with)\b|"
    rf"\w+ (?:wants|prefers|expects|likes) .* (?:as|not|in|over)\b|\w+ (?:beats|over|before|trumps) \w+|"
    rf"\w+ first, \w+ (?:second|later|after)|(?!(?:the|our|an?|this|that|these|i|it|there|every\w*|all|any|no|nobody|"
    rf"someone|we|they|both|most|some|many|"
    rf"customers?|clients?|users?|people|partners|vendors?|managers?|employees|visitors)\b)(?:(?!{CLAUSE}\b|"
    rf".*(?:\d|\b(?:the|our|an?|from|until)\b))(?-i:[a-z][\w "
    rf"-]+)$|(?:[\w-]+ ){{0,2}}[\w-]+s (?:should|must|have to|need to|shouldn't|mustn't)\b))"
)
