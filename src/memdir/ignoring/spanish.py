"""Spanish: "no uses tu memoria", "ignora tus recuerdos", "responde sin la memoria"."""

from memdir.language.grammar import END, MEM, IgnoreLanguage, any_word_of

_NOUN = r"(?:memorias?(?: guardadas?)?|recuerdos(?: guardados)?|archivos de memoria)"
_ANSWER = any_word_of("responde, contesta, respóndeme, contéstame, explica, hazlo, haz esto")
_AFTER = any_word_of(
    rf"""ahora, aquí, esta vez, hoy, por completo, gracias, cuando, al (?:responder|contestar), más, hasta que,
    para (?:esta|este|esto|la próxima|lo siguiente|responder|contestar|el resto), en (?:esta|este|tu|su|toda),
    por (?:ahora|el momento), durante (?:esta|el resto), a partir de, de ahora en adelante, desde ahora,
    y (?:{_ANSWER}|dime|mira|lee|empieza|haz|escribe|dame)\w*"""
)
_USE = any_word_of(
    """(?:us|utilic|emple)(?:es|e|en), usar, utilizar, consult(?:es|e|ar), mires?, leas?, cargues?, cites, menciones,
    recurras? a, (?:te|se) bases? en, (?:te|se) apoyes? en, tengas? en cuenta, hagas? uso de, hagas caso (?:a|de),
    accedas? a, busques en"""
)
_USING = any_word_of("usar, utilizar, consultar, recurrir a, mirar, tener en cuenta, emplear, leer, acceder a")

SPANISH = IgnoreLanguage(
    cues=any_word_of(
        """ignor, evit, no , nunca, sin , activ, apag, pausa, suspende, prescind, omiso, olvídate, dej, para , nada,
        volver, vuelv, de nuevo, otra vez, como si"""
    ),
    owned=(
        rf"\b(?:(?:(?:todas?|todos?) )?(?:tus?|sus?) {_NOUN}|(?:(?:los|mis|esos|estos) )?recuerdos(?: guardados)?|"
        r"ningún recuerdo|lo que (?:recuerdas|recuerdes|has memorizado))(?![-/\w])"
    ),
    bare=rf"\b(?:(?:las?|mis?|esas?|estas?|ninguna) )?(?:{_NOUN}|memory)(?![-/\w])",
    fill=r"\b(?:por favor|completamente|totalmente|simplemente|ya|para nada)\b,?",
    leads=any_word_of(
        r"""ok, vale, bien, bueno, oye, hola, ahora, y, pero, entonces, esta vez, aquí, solo, de ahora en adelante,
        a partir de ahora, desde ahora, para esta \w+, para este \w+, para el resto de (?:la|esta) \w+, por ahora,
        por el momento, en esta \w+, en este \w+, en tu respuesta, durante esta \w+, puedes, podrías, puede, podría,
        quiero que, quisiera que, me gustaría que, necesito que, te pido que, intenta, importante, por cierto, claude,
        sí"""
    ),
    cores=(
        rf"(?:ignor(?:a|e|en|es|ar)|(?:no|nunca) {_USE}(?: nada de)?|evit(?:a|e|ar) {_USING}) {MEM}",
        rf"(?:desactiva|desactive|desactivar|apaga|apague|pausa|suspende) {MEM}",
        rf"(?:haz|haga|actúa|actua|actúe|responde) como si no (?:tuvieras|tuviera|tuvieses|tuviese) {MEM}",
        rf"(?:prescinde|prescinda|haz caso omiso|haga caso omiso|olvídate) de {MEM}",
        rf"(?:deja|deje) {MEM} (?:a un lado|de lado|fuera|aparte)",
        rf"{_ANSWER}\b[^,;]{{0,50}}? sin (?:{_USING} )?{MEM}",
        rf"(?:sin|nada de) {MEM}(?= (?:esta vez|aquí|para esta|en esta))",
        rf"sin (?:{_USING} )?{MEM}(?=[,:])",
    ),
    stops=(rf"(?:deja|deje|para) de {_USING} {MEM}",),
    again=(
        rf"(?:vuelve a|vuelva a|volver a) {_USING} {MEM}",
        rf"(?:usa|utiliza|usar|utilizar) {MEM} (?:de nuevo|otra vez)",
        rf"(?:reactiva|reactivar|activa de nuevo|deja de ignorar) {MEM}",
    ),
    free=(rf"\bsin (?:{_USING} )?¤",),
    tail=rf"(?={END}| {_AFTER}\b)",
    lasting=any_word_of(
        r"""\bconversaci[óo]n\b, \bsesi[óo]n\b, \bcharla\b, \bchat\b, \bdiálogo\b, de ahora en adelante,
        a partir de ahora, desde ahora, el resto, hasta que, nunca más, en adelante"""
    ),
    asks=r"\b(?:puedes|podrías|puede|podría)\b|\bpor favor\b",
    doubts=r"\b"
    + any_word_of(
        r"""cpu, gpu, heap, ram, fugas?, alloc\w*, malloc, perfil\w*, consumo, swap, latencia, [kmg]i?b, bytes?,
        punteros?, benchmarks?, disco, kernel, docker, búfer, pila, métricas?, columna, procesador, caché,
        rendimiento"""
    )
    + r"\b",
)
