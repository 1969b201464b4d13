"""Spanish: «recuerda que», «a partir de ahora», «deja de», «hazlo siempre así», «soy enfermera»."""

from memdir.language.grammar import RequestCategory, RequestLanguage, RuleNeed, any_of, make_request_rule, words_of
from memdir.records import Kind
from memdir.rules.systems import SYSTEM

_LATER = any_of(
    r"""para (?:más tarde|luego|el futuro|la próxima(?: vez)?|las próximas \w+|otras veces|siempre|futuras \w+|
    adelante), en (?:el futuro|adelante|lo sucesivo), por favor, bien, también, de ahora en adelante,
    a partir de ahora, esto, lo siguiente, desde ahora"""
)
_COLON = r"(?:[\s,:–—-]+(?:que\b)?:?\s*)"
_NOUNS = any_of(
    r"""(?:los |las )?mensajes? de commit, commits?, respuestas?, ramas?, prs?, comentarios?,
    nombres? de (?:variables?|ramas?), tests?, pruebas, el código, código, doc\w*, errores, textos?, migraciones,
    logs?, imports?, ejemplos?, resúmenes"""
)
_DUE = any_of(
    r"""(?:auditoría|demo|entrega|release|lanzamiento) (?:es|será), fecha límite, plazo, vence\w*, entrega\w*,
    congelación, lanzamiento, release, sale, caduca\w*, termina\w*, empieza\w*, fin de, migración, auditoría, demo,
    apaga\w*, tenemos que, hay que, debe\w*, tiene que,
    se mueve, pasa al, aplazad\w+, corte, contrato"""
)
_SAVES = (
    r"(?:para (?:el futuro|más adelante|la próxima(?: vez)?|luego)|(?:importante|bueno)? ?(?:de )?recordar|"
    r"a tener en cuenta|no olvidar|memo)\s*: *(?P<what>.+)",
    r"(?:guarda|apunta|anota)(?: esto)?(?: para .{3,25})?\s*: *(?P<what>.+)",
    rf"(?:recuerda|recordad|recuerde|acuérdate|memoriza|apunta|anota|guarda|(?:no|nunca) (?:te )?olvides(?: nunca| "
    rf"jamás)?|ten (?:en cuenta|"
    rf"presente|en mente)|toma nota|tome nota|ten)(?: (?:bien|también|de|en (?:tu )?memoria|en cuenta|"
    rf"presente))*(?:[\s,]+{_LATER})*(?:,? (?:de )?que\b|\s*:| esto\s*:) *(?P<what>.+)",
    rf"(?:recordar|acordarte|memorizar|apuntar|anotar|tener (?:en cuenta|presente)|guardar)(?: (?:en (?:tu )?memoria|"
    rf"de))?(?:[\s,]+{_LATER})*(?:,? que\b|\s*:) *(?P<what>.+)",
    r"(?:recuerda|recuerde|acuérdate de|no (?:te )?olvides(?: de)?) (?P<what>(?:no|nunca|jamás|siempre)\b .+)",
    r"(?:apunta|anota|guarda|escribe)(?: esto)? (?:por ahí|en algún (?:sitio|lado)|en tus notas)(?: que|"
    r"\s*:) *(?P<what>.+)",
    r"(?:una |otra |pequeña )*(?:nota|apunte|regla|norma|recordatorio)(?: (?:para (?:el futuro|más tarde|ti|luego|"
    r"la próxima(?: vez)?|mí)|mental))?\s*: *(?P<what>.+)",
    r"(?:guarda|añade|pon|mete|agrega|graba)(?: (?:esto|eso))? (?:en|a) (?:tu |la )?memoria(?: que|\s*:) *(?P<what>.+)",
    r"(?:quiero|me gustaría|necesito|querría) que (?:recuerdes|sepas|tengas (?:en cuenta|presente)|"
    r"te acuerdes(?: de)?|memorices|anotes)(?: que|\s*:) *(?P<what>.+)",
    r"(?:debes|tienes que|deberías) (?:saber|recordar|tener en cuenta)(?:,? .{4,30},)? que (?P<what>.+)",
    r"(?:que sepas|para que (?:lo )?sepas(?: en el futuro)?)(?: que|[:,]) *(?P<what>.+)",
    r"para (?:las próximas (?:veces|sesiones|conversaciones)|la próxima(?: vez)?|todas las sesiones|"
    r"futuras \w+)\s*[:,] *(?P<what>.+)",
)
_SAVED_BEFORE = (
    r"(?P<what>.{12,}?)[,;.:–—-]+ *(?:y |así que )*(?:recuérdalo|apúntalo|anótalo|acuérdate(?: de eso)?|"
    r"tenlo (?:en cuenta|presente)|no lo olvides|guárdalo)(?: por favor| gracias| siempre)*[.! ]*$",
)
_LASTING = (
    r"(?:quiero|me gustaría|necesito) que (?P<what>(?:siempre|nunca)\b .+)",
    r"(?:a partir de (?:ahora|hoy|este momento)|de (?:ahora|aquí|hoy) en adelante|desde (?:ahora|hoy|ya)|"
    r"en (?:el futuro|adelante|lo sucesivo)|la próxima vez|por defecto|en general|como norma)[\s,:]+(?P<what>.+)",
    r"(?P<what>(?:nunca|jamás) (?:más )?(?!(?:he|ha|hemos|había|fue|me|supe|vi|se|lo|la|funciona\w*|\w+o|\w+é|"
    r"\w+ó)\b)\w+.{4,})",
    r"(?P<what>siempre (?!(?:el|la|los|las|un|una|lo|me|que|es|está|hay|pasa|sale|he|ha|falla|fue|se|lo|\w+o|\w+é|"
    r"\w+ó)\b)\w+ .{4,})",
    r"(?P<what>(?:\w{3,}(?:me|lo|nos)|usa|haz|pon|escribe|ejecuta|responde|pregunta|prueba|revisa|añade|incluye|corre|"
    r"comprueba|lanza|muestra|explica) siempre .{4,})",
    r"(?P<what>(?!me |se |los |las |el |la |como |yo |ya |es |eso |esto ).{6,60}[,.]? (?:de ahora en adelante|"
    r"a partir de ahora|en adelante|cada vez|en el futuro)[.! ]*$)",
    r"(?P<what>(?:cada vez que|siempre que|cuando|antes de que) .{4,60}, (?:siempre |por favor )?(?!me|se|el|la|sale|"
    r"falla)\w+.+)",
)
_CORRECTIONS = (
    r"(?P<what>(?:menos|más) [\w-]+(?: \w+)?(?:,| y) (?:más|menos) \w+.*)",
    r"(?P<what>(?!.*\b(?:ahora|hoy)\b)(?:prefiero|preferiría|me gustaría más|es mejor|sería mejor|"
    r"mejor)(?: para mí)? (?:que|"
    r"si|cuando) (?:me |lo |no )?\w+.{4,})",
    r"(?P<what>(?:menos|más) [\w-]+(?: \w+)?,? (?:por favor|porfa)\b.{4,})",
    r"(?P<what>(?:aquí|en este proyecto|en el equipo),? .{3,60}(?:,|y) (?:no|nunca) .+)",
    r"(?P<what>(?:deja|dejad|para|basta) (?:ya )?de .+)",
    r"(?P<what>(?:así no|no es así como|así no es como) .{6,})",
    r"(?P<what>(?:aquí|en este proyecto|en nuestro \w+|en el equipo|en esta empresa),? (?:no |siempre |nunca |"
    r"solo )?\w+(?:mos|se)\b.{3,})",
    r"(?P<what>(?:no|nunca|siempre|solo) (?:\w+ )?\w+(?:amos|emos|imos)\b .{3,60}(?:aquí|en este proyecto|"
    r"en el equipo|en nuestro|nosotros)\b.*)",
    r"(?P<what>no (?:me |lo |la |les |pongas|hagas|uses|añadas|escribas|metas|crees|toques|cambies|agregues|"
    r"pidas)\w* ?(?:más |tantos |tantas )\w+.{3,})",
    r"(?P<what>no (?:hace falta|tienes) que .{6,})",
    r"(?P<what>evita .{6,})",
)
_CORRECTIONS_GENERAL = (
    r"(?P<what>no \w+(?:es|as)\b .{4,})",
    r"(?P<what>(?:nada de|sin|usa|pon|escribe|responde|prefiero|pregunta|haz) .{4,})",
    r"(?P<what>(?:es|está|eso es) demasiado (?:largo|corto|detallado)\b.+)",
)
_CONFIRMATIONS = (
    r"(?:hazlo|sigue|seguid|continúa|mantén(?:lo)?)(?: siempre)? (?:así|haciéndolo|como hasta ahora|con eso|"
    r"de esta forma|siempre así)\b.*",
    r"(?:me gusta|me encanta|me parece (?:bien|perfecto)|agradezco) (?:mucho )?(?:que|cómo|cuando) .+",
    r".{6,}(?:es|fue|era|ha sido) (?:exactamente |justo |precisamente )?(?:lo que quiero|la decisión correcta|"
    r"lo correcto|la mejor opción|como lo quiero|lo que quería siempre)\b.*",
    r"(?:buena|excelente) (?:decisión|idea|elección) (?:de|lo de|al|con) .+",
    r"hiciste bien en .+",
)
_ROLE = any_of(
    r"""(?:\w+ )?(?:desarrollador|desarrolladora|programador|programadora|ingenier[oa]|diseñador|diseñadora|analista|
    científic[oa]|profesor|profesora|maestr[oa]|estudiante|médic[oa]|enfermer[oa]|abogad[oa]|consultor|consultora|
    autónom[oa]|redactor|redactora|traductor|traductora|administrador|administradora|jef[ea]|responsable|investigador|
    investigadora|arquitect[oa]|contable|periodista|principiante|novat[oa]|expert[oa]|vegetarian[oa]|vegan[oa]|
    celíac[oa]|
    daltónic[oa]|disléxic[oa]|zurd[oa]|jubilad[oa]|freelance|doctorand[oa]|becari[oa]|tech lead|product owner|
    scrum master|devops|sre)"""
)
_IDENTITIES = (
    r"(?P<what>vengo del (?:mundo|sector|ámbito) .+)",
    r"(?P<what>.{2,30} es (?:algo )?nuevo para mí\b.*)",
    rf"(?P<what>(?:yo )?soy (?:el |la |un |una |únic[oa] |también |\w+ ){{0,3}}?{_ROLE}\b.*)",
    r"(?P<what>(?:trabajo|vivo|estudio|enseño) (?:en|como|para|desde|de|a|con|principalmente|sobre todo) .+)",
    r"(?P<what>(?:dirijo|mantengo|gestiono|coordino|me encargo de|me ocupo de|llevo) (?:el|la|los|las|un|una|este|"
    r"nuestro|\d+|\w+ años).{3,})",
    r"(?P<what>mi (?:lengua materna|idioma|rol|trabajo|profesión|zona horaria|puesto) es .+)",
    r"(?P<what>como (?:\w+ ){0,2}\w+(?:or|ora|ista|er[oa]) (?:que soy|me interesa|trabajo).+)",
    r"(?P<what>sé (?:mucho|poco|bastante) (?:de|sobre) .+)",
)
_PLACED = (
    r"(?:está|están|se encuentra\w*|viven?|llegan?|van?|se (?:siguen?|registran?|apuntan?|guardan?|documentan?|"
    r"publican?)|encontrarás|lo encuentras|entran?|hay)"
)
SPANISH = RequestLanguage(
    name="es",
    leads=any_of(
        r"""ok, vale, sí, no(?=\s*[.!:;]|\s*,), pero, y, ya, también, entonces, bueno, ah, oye, hola, perfecto, genial,
    gracias,
    muy bien, bien, por favor, porfa, puedes, podrías, quiero que, me gustaría que, necesito que, por cierto, ojo,
    importante,
        atención, una cosa, otra cosa, como ya dije, te lo he dicho, exacto, exactamente, ahora, lo siento, mira,
        super, estupendo, para que lo sepas, yo, luego"""
    ),
    rules=(
        make_request_rule(
            RequestCategory.FORGET,
            r"(?:olvida|olvídate de|borra|elimina|quita)(?: por favor)? (?:de (?:tu|la) memoria )?(?:lo (?:de|"
            r"que (?:te )?(?:dije|he dicho|conté) (?:sobre|de|acerca de))|que|(?:la|las|el|los|mi|mis) (?:reglas?|"
            r"normas?|notas?|preferencias?|instruccion(?:es)?|recuerdos?|tema|cosa)(?: (?:de|del|sobre|que|"
            r"con))?) (?P<what>.+)",
            RuleNeed.STRONG,
        ),
        make_request_rule(
            RequestCategory.FORGET,
            r"(?:borra|elimina|quita|borrar|eliminar|quitar) (?P<what>.+?) de (?:tu|la) memoria\b",
            RuleNeed.STRONG,
        ),
        make_request_rule(
            RequestCategory.FORGET,
            r"(?:ya )?(?:puedes |podrías )(?:ya )?(?:olvidar|olvidarte de) (?:que )?(?P<what>.+)",
            RuleNeed.STRONG,
        ),
        make_request_rule(
            RequestCategory.FORGET,
            r"(?:puedes |podrías )?(?:olvidar|olvidarte de|borrar) (?:lo de|que|la (?:regla|nota|norma)(?: de|"
            r" sobre)?) (?P<what>.+)",
            RuleNeed.STRONG,
        ),
        *(make_request_rule(RequestCategory.REQUEST, at, RuleNeed.STRONG, RuleNeed.WHOLE) for at in _SAVED_BEFORE),
        *(make_request_rule(RequestCategory.REQUEST, at, RuleNeed.STRONG) for at in _SAVES),
        *(
            make_request_rule(RequestCategory.CONFIRMATION, at, RuleNeed.ANSWERED, kind=Kind.FEEDBACK)
            for at in _CONFIRMATIONS
        ),
        *(make_request_rule(RequestCategory.REQUEST, at, RuleNeed.LASTING, default=Kind.FEEDBACK) for at in _LASTING),
        *(
            make_request_rule(RequestCategory.CORRECTION, at, RuleNeed.ANSWERED, kind=Kind.FEEDBACK)
            for at in _CORRECTIONS
        ),
        *(
            make_request_rule(RequestCategory.CORRECTION, at, RuleNeed.ANSWERED, RuleNeed.GENERAL, kind=Kind.FEEDBACK)
            for at in _CORRECTIONS_GENERAL
        ),
        make_request_rule(
            RequestCategory.DECISION,
            r"(?P<what>(?:\w+ )?(?:hemos|el equipo ha?|la dirección ha?|el cliente ha?|dirección|se ha|hoy|ayer|"
            r"la empresa ha?|legal)? ?(?:\w+ ){0,2}(?:decidido|decidimos|decidió|acordado|acordamos|acordó|"
            r"cancelado|canceló|aprobado|aprobó|aplazado|aplazamos|descartado|descartamos|elegido|elegimos)\b.*)",
            RuleNeed.WHOLE,
            kind=Kind.PROJECT,
        ),
        make_request_rule(
            RequestCategory.POINTER,
            rf"(?P<what>(?!yo\b)[^,;]{{3,60}}? {_PLACED} .{{0,40}}?{SYSTEM}.*)",
            RuleNeed.WHOLE,
            kind=Kind.REFERENCE,
        ),
        make_request_rule(
            RequestCategory.POINTER,
            rf"(?P<what>para (?:preguntas|dudas|problemas|cualquier)\b.*{SYSTEM}.*)",
            RuleNeed.WHOLE,
            kind=Kind.REFERENCE,
        ),
        *(make_request_rule(RequestCategory.IDENTITY, at, kind=Kind.USER) for at in _IDENTITIES),
        make_request_rule(
            RequestCategory.DEADLINE,
            rf"(?P<what>(?!yo\b|mi\b)(?:(?!\byo\b|\bmi\b|\bmis\b).){{0,90}}?\b{_DUE}\b.+)",
            RuleNeed.WHOLE,
            RuleNeed.DATED,
            kind=Kind.PROJECT,
        ),
    ),
    asks=r"^(?:\W*(?:ok|y|oye|hola|por favor|vale),?\s*)*[¿]?(?:puedes|podrías|me puedes|quieres)\b",
    questions=r"[¿]|(?:y |pero |entonces )*(?:qué|cómo|cuándo|dónde|quién|cuál|cuánto|por qué|para qué|hay que saber|"
    r"recuérdame|te acuerdas|sabes|debo|tengo que saber)\b",
    reported=r"\b(?:dice que|dijo|dicen|si te|si yo|imagina|canción|película|título|comentario|traduce|traducir|"
    r"escena|casilla|escribe en)\b",
    refusals=r"sin (?:guardarlo|recordarlo|memorizarlo|apuntarlo)|entre nosotros|no (?:lo |la |los )?(?:guardes|"
    r"apuntes|recuerdes|memorices)|no vale la pena (?:recordar|guardar|apuntar)|(?:no (?:hace falta|es necesario|"
    r"necesitas|tienes) (?:que )?(?:lo |la )?(?:recuerd|recordar|guard|apunt|memori|anot)\w*)|no (?:lo |la |"
    r"los )?(?:guardes|recuerdes|apuntes|anotes|memorices|almacenes)\b|olvida lo que (?:acabo de decir|dije|"
    r"he dicho)\s*(?:[.!,]|$)",
    tasks=r"\b(?:est[ea] (?:pr|función|archivo|clase|método|test|rama|commit|línea|bucle|módulo|página|vez)|por ahora|"
    r"de momento|esta vez|línea \d+|más abajo|abajo|arriba|bucle|solo por hoy|ahora mismo|todavía)\b",
    states=r"\bsigo en\b|\bestoy (?:todavía )?en la rama\b|"
    r"\b[a-z] es un|\b(?:(?:el|la) (?:campo|array|lista|bucle|variable|parámetro) (?:es|puede)|solo (?:por |"
    r"para )?hoy|para esta (?:sesión|conversación)|temporalmente|paso \d|en esta función|para esta (?:pregunta|"
    r"tarea)|escribe .{0,20}en el readme|por ahora|este commit)\b",
    idle=r"(?:el (?:puerto|servidor|nombre|campo|parámetro)|la (?:variable|función|url)|todo (?:irá|será|va)|yo|voy|"
    r"iré|él|ella|el índice|los tests pasan|quizás|tal vez|veremos)\b(?! (?:quiero|prefiero))",
    general=r"\b(?:siempre|nunca|jamás|cada|todos|todas|todo el proyecto|en general|por defecto|aquí|en este proyecto|"
    r"salvo|sin preguntar|tus respuestas|a mano|ni)\b",
    pronouns=r"(?:haz |guarda |apunta )?(?:eso|esto|lo|así)\b\W*(?:$|por favor)",
    vouches=r"\b(?:vale para|regla|norma|convención|así lo hacemos|en general)\b",
    refers=r"\b(?:eso|esto|lo|los|las)\b",
    that=r"(?:[\s,:–—-]|que\b|también\b|bien\b)+",
    tail=r"[\s,]*\b(?:por favor|porfa|gracias|vale|ok)[.!?\s]*$",
    why=r"[,;]?\s+(?:porque|ya que|puesto que|dado que|pues)\s+(?P<why>.{8,})$",
    about_me=r"(?:yo|mi|mis|me|soy|trabajo|vivo|escribo|estoy|tengo|uso|programo|llevo|hablo|estudio)\b",
    prefers=r"(?:(?:yo )?(?:prefiero|quiero|no quiero|odio|no me gusta|me gusta))\b",
    directs=rf"(?:nada de\b|siempre\b|nunca\b|no (?!hay|tenemos)\w+(?:es|as)\b|(?:\w+ ){{0,4}}(?:tratamos|usamos|"
    rf"escribimos|hacemos|nombramos|ponemos|seguimos|preferimos)\b|(?:los |las |el |la |todos los |"
    rf"cada )?{_NOUNS}\b|usa\b|responde\b|escribe\b|pregunta\b)",
    praise=r"\b(?:me gusta|perfecto|genial|gracias|exactamente|exacto|hazlo|siempre|así|sigue|muy|bien|sí|vale|lo|que|"
    r"quiero|es|continúa)\b",
    goes_on=r"(?!(?:yo|eso es|es|tú|y luego|luego|gracias|puedes|deshaz|corrige|cambia|ok|qué|por qué|cómo)\b)[\w\"«]+",
    negates=r"\b(?:no|nunca|jamás|sin|ningun[oa]?|nada|ni|tampoco)\b",
    links=words_of("de del al a en con por para sobre desde"),
    empty=words_of(
        "el la los las un uno una unos unas y o pero que quien cual este esta estos estas ese esa su sus mi mis "
        "nuestro es son era ser está están estar ha han haber lo le les se nos yo tú muy también "
        "soy me te ya más como cada todo toda todos todas hay tiene tienen"
    ),
)
