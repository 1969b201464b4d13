"""Words that carry no claim: grammar, and what a memory is framed with ("the user prefers", "when", "always").

One table over four languages whose words stand apart, patterns for Chinese and Japanese. They are left out when a
sentence is compared with what somebody said: a model adds them, and an attacker gains nothing by them.
"""

SMALL = frozenset(
    # English
    "a an the this that these those some any such and or but nor so if then than as of to in on at by for from with "
    "into onto about over under between through per via is are was were be been being am has have had having do does "
    "did done doing will would shall should can could may might must it its he him his she her hers they them "
    "their we "
    "us our ours you your yours i me my mine who whom whose which what when where why how there here very quite also "
    "just too please s t re ve ll d m all each every both own same other another one ones more most much many only "
    "still yet again now later always never not no none dont doesnt isnt wont cant user users person people agent "
    "assistant model prefer prefers preferred preference preferences want wants wanted like likes liked wish wishes "
    "ask asks asked asking request requested requests require requires required expect expects need needs "
    "needed said "
    "says say tell tells told mention mentioned state stated remember rule rules note notes memory keep make makes "
    "made making use uses used using get gets let lets go going know apply applies whenever while during "
    "before after "
    "until because since due reason thing things way explicitly generally sure instead rather well even etc eg ie "
    "without within out up down off himself herself themselves project team "
    # German
    "der die das den dem des ein eine einen einem einer eines und oder aber als wie zu zum zur im am an auf "
    "aus bei mit "
    "von vom für über um nach ist sind war waren sein wird werden wurde hat haben hatte kann können soll "
    "sollen sollte "
    "muss müssen man er sie es ihr ihm ihn ihre ihrer seine seinen wir uns unser unsere unseren ich mich mir "
    "mein meine "
    "meinen du dich dir dein deine was wer wo wann warum dass dies diese dieser dieses diesen bitte sehr auch "
    "nur noch "
    "immer nie niemals nicht kein keine keinen ohne statt wenn weil damit denn doch schon so hier dort alle "
    "alles jeder "
    "jede jedes nutzer nutzerin benutzer benutzerin anwender person agent möchte will wünscht bevorzugt mag "
    "bittet gesagt "
    "sagt merken merke regel nutzen verwenden verwendet benutzen machen macht gilt anwenden grund ab sofort "
    "künftig vor "
    "durch gegen bis sich einfach lieber bleiben bleibt projekt "
    # French
    "le la les un une des du de et ou mais que qui quoi dont où ce cet cette ces son sa ses leur leurs mon ma "
    "mes notre "
    "nos votre vos au aux en dans par pour sur avec est sont était être a ont avoir il elle ils elles on nous "
    "vous je tu "
    "se me te moi toi à y très aussi ne pas plus jamais toujours sans si quand car parce afin chaque tout tous toute "
    "toutes l d j m t s n c qu utilisateur utilisatrice personne agent préfère préfèrent préférer veut "
    "souhaite demande "
    "dit rappelle retenir règle utiliser utilise faire fait doit doivent désormais raison comme plutôt bien "
    "projet équipe "
    # Spanish
    "el los las uno una unos unas y o pero que quien cual este esta estos estas ese esa su sus mi mis nuestro "
    "nuestra del "
    "al con por para sobre es son era ser está están estar ha han haber lo le se nos yo tú te muy también no nunca "
    "siempre sin si cuando porque cada todo todos toda todas usuario usuaria persona agente prefiere prefieren "
    "quiere "
    "pide dice recordar regla usar usa hacer hace debe deben ahora adelante partir razón como más ya proyecto equipo "
    "en de".split()
)
# Chinese and Japanese: what is cut out of a run of characters before it is taken in pairs.
SMALL_CJK = (
    "用户|使用者|助手|代理|偏好|喜欢|希望|要求|想要|需要|应该|可以|必须|总是|永远|一律|以后|今后|从现在起|请|记住|记得|规则|"
    "这个|那个|我们|他们|你们|自己|因为|所以|如果|的时候|时候|以及|或者|并且|但是|不要|不能|不用|不是|没有|使用|进行|"
    "ユーザー|利用者|本人|好み|希望|必ず|常に|今後|場合|とき|こと|もの|ため|よう|使用|使う|使って|"
    "[的了是在和与或及也把被对我你您他她它们这那要会能就都还很不别没有到从用给让将为等着过吗呢吧个之其"
    "、。，；：！？「」『』（）・\\s]"
)
