"""The "ignore memory" switch in six languages: what must be heard, and what must not."""

from memdir.language.requests import IgnoreReach, find_ignored, find_ignoring, load_ignore_languages
from tables import table

TURN = {
    "en": """
        ignore memory
        Ignore your memory.
        please ignore memory for this question
        Ignore all memories, I want a fresh answer.
        Could you ignore your memory for this one?
        ignore the memory and just answer from the code
        Don't use memory.
        Do not use your memory here
        don’t use any saved memories for this answer
        please don't use memory this time
        For this question, don't rely on your memory.
        Never mind the past notes, do not consult memory.
        Answer without using your memory: what is a monad?
        Explain closures without your saved memories
        disregard what you remember about me
        Ignore what you remember from previous sessions.
        Pretend you have no memory. How would you set this up?
        act as if your memory was empty
        leave memory out of this
        Turn off memory for this question
        skip memory please
        No memory for this one, please.
        Ignore MEMORY.md for now.
        I'd like you to ignore memory when answering
        Fix the leak in the parser. Ignore memory.
        Please compare both and don't use your memory.
        Set your memories aside for a moment.
        don't recall anything
        Do not consult any stored memory.
        Could you please not use your memory here?
        Please refrain from using your memory.
        Ignoring memory, what is the best way?
        Your memory should be ignored here.
    """,
    "de": """
        ignoriere dein Gedächtnis
        Bitte ignoriere das Gedächtnis für diese Frage.
        Ignoriere bitte alle Erinnerungen.
        Ignorieren Sie bitte Ihr Gedächtnis.
        Verwende keine Erinnerungen.
        Nutze dein Gedächtnis diesmal nicht.
        Benutze bitte nicht dein Gedächtnis
        Bitte Gedächtnis ignorieren
        Erinnerungen bitte nicht verwenden
        Kannst du bitte dein Gedächtnis ignorieren?
        Antworte ohne Gedächtnis: was ist ein Monoid?
        Beantworte das, ohne auf dein Gedächtnis zurückzugreifen.
        Lass dein Gedächtnis außen vor.
        Greif bitte nicht auf deine Erinnerungen zu.
        Tu so, als hättest du kein Gedächtnis.
        ignorier mal deine gespeicherten Erinnerungen
        Schalte das Gedächtnis aus
        Bitte ohne Gedächtnis antworten.
        Ignoriere, was du dir gemerkt hast.
    """,
    "fr": """
        ignore ta mémoire
        Ignore la mémoire, s'il te plaît.
        S'il vous plaît, ignorez votre mémoire pour cette question.
        N'utilise pas ta mémoire.
        n'utilise pas la mémoire pour répondre
        N’utilisez pas vos souvenirs.
        Ne te sers pas de ta mémoire cette fois.
        Ne tiens pas compte de tes souvenirs
        Ne consulte pas ta mémoire pour cette réponse.
        Réponds sans utiliser ta mémoire.
        Explique-moi cela sans ta mémoire.
        Fais comme si tu n'avais pas de mémoire.
        Fais abstraction de tes souvenirs
        Peux-tu ignorer ta mémoire ?
        Merci de ne pas utiliser ta mémoire.
        Laisse ta mémoire de côté.
        Ne prends pas en compte ta mémoire.
        Évite d'utiliser ta mémoire.
    """,
    "es": """
        ignora tu memoria
        Por favor, ignora la memoria.
        Ignora tus recuerdos para esta pregunta.
        Ignore su memoria, por favor.
        No uses tu memoria.
        no uses la memoria para responder
        No utilices tus recuerdos esta vez
        Por favor no consultes tu memoria.
        No tengas en cuenta tu memoria.
        Responde sin usar tu memoria.
        Contesta sin la memoria, por favor.
        Haz como si no tuvieras memoria.
        ¿Puedes ignorar tu memoria?
        Quiero que ignores tus recuerdos.
        Deja tu memoria a un lado.
        Prescinde de tu memoria
        Evita usar tu memoria.
    """,
    "zh": """
        忽略记忆
        请忽略你的记忆。
        忽略所有记忆，直接回答
        请不要使用记忆
        不要用记忆回答这个问题
        别用记忆了
        这次不要参考你的记忆。
        回答时不要使用记忆内容
        请勿使用记忆。
        无视记忆，重新想一下
        假装你没有记忆
        把记忆放一边，告诉我怎么做
        請忽略記憶
        這次別用你的記憶
        不要使用以前的記憶來回答
        你能不能忽略记忆？
        在不使用记忆的情况下回答
        本次回答不要使用记忆
        记忆不要用
    """,
    "ja": """
        メモリを無視して
        メモリを無視してください。
        記憶は無視して答えて
        今回はメモリーを使わないでください
        記憶を使わないで
        記憶を使わずに答えてください。
        メモリなしで回答して
        この質問では記憶を参照しないでください。
        過去の記憶に頼らないで
        メモリは使うな
        記憶がないふりをしてください
        保存された記憶を無視して、最初から考えて
        メモリ機能をオフにしてください
        メモリを無視してもらえますか？
        覚えていることは無視して
    """,
}
CONVERSATION = {
    "en": """
        Ignore memory for this conversation.
        From now on, don't use your memory.
        For the rest of this session ignore all memories
        don't use memory in this chat
        Stop using your memory.
        Ignore memory until I say otherwise
        Please don't use memory anymore.
        Turn memory off for this conversation, please.
    """,
    "de": """
        Ignoriere dein Gedächtnis in diesem Gespräch.
        Ab jetzt verwende keine Erinnerungen.
        Bitte nutze dein Gedächtnis in dieser Unterhaltung nicht.
        Hör auf, dein Gedächtnis zu benutzen.
    """,
    "fr": """
        Ignore ta mémoire pour cette conversation.
        À partir de maintenant, n'utilise pas ta mémoire.
        Désormais, ne consulte pas tes souvenirs.
        Arrête d'utiliser ta mémoire.
        N'utilise plus ta mémoire.
    """,
    "es": """
        Ignora tu memoria en esta conversación.
        De ahora en adelante no uses tu memoria.
        Deja de usar la memoria.
        No uses tus recuerdos durante el resto de la sesión.
    """,
    "zh": """
        在这次对话中忽略记忆
        从现在起不要使用记忆。
        接下来不要参考你的记忆
        這個對話中請不要使用記憶
        停止使用记忆
    """,
    "ja": """
        この会話では記憶を使わないでください。
        今後はメモリを参照しないで
        このセッション中はメモリーを無視してください
    """,
}
NOTHING = {
    "en": """
        don't ignore memory
        Please do not ignore your memory.
        never ignore memory
        The function ignores memory leaks.
        Ignore memory leaks in this report.
        ignore memory usage, look at latency
        Ignore memory, look at the CPU time instead.
        Don't use memory mapped files.
        don't use memory for caching, use redis
        Do not use memory-mapped IO here
        why did you ignore memory?
        Did you ignore your memory?
        Should we ignore memory?
        What happens if I say "ignore memory"?
        Add a test that `ignore memory` switches recall off
        The user can say: "don't use memory" and recall is skipped.
        how do I make it ignore memory pressure
        They are fast and don't use memory.
        ignore memory/ in .gitignore
        Skip memory tests in CI
        disable memory swapping in docker
        The process ran out of memory, ignore it.
        remember to use your memory
        use your memory
        Do you have a memory of our last talk?
        How much memory does this use?
        I don't use memory profilers much.
        We should not use memory pools.
        ignore the memory column in the chart
        It seems to ignore memory.
        forget about the memory leak
        without memory barriers this is a race
        > ignore memory
        The linter told me to ignore memory.
        Don't use so much memory.
        we can ignore memory here since n is small
        I will ignore memory for now in my design.
        Pretend you have no memory limit
        stop using memory so wastefully
        It does not use your memory settings.
        Please don't use memory_profiler
    """,
    "de": """
        Ignoriere dein Gedächtnis nicht.
        Bitte ignoriere das Gedächtnis bitte nicht
        Die Funktion ignoriert Speicherlecks.
        Ignoriere Speicherfehler im Log.
        Verwende nicht so viel Speicher.
        Warum ignorierst du dein Gedächtnis?
        Verwende kein Memory-Mapping.
        Nutze dein Gedächtnis.
        Erinnerungen nicht ignorieren
        Kein Gedächtnis der Welt hält das aus.
        Vergiss die Erinnerung an den Termin nicht.
        Ignoriere Memory Leaks
        Ich habe ein schlechtes Gedächtnis.
        Das Gedächtnis ignorieren viele Nutzer.
        Ignoriere bitte die Memory-Warnung.
    """,
    "fr": """
        N'ignore pas ta mémoire.
        La fonction ignore la mémoire partagée.
        Ignore la mémoire cache du processeur.
        N'utilise pas trop de mémoire.
        N'utilise pas la mémoire vive pour ça.
        Pourquoi as-tu ignoré ma mémoire ?
        Utilise ta mémoire.
        Ignore les fuites de mémoire.
        n'utilise pas de mémoire partagée
        J'ai de bons souvenirs de ce projet.
        Est-ce qu'il ignore la mémoire ?
        Le programme n'utilise pas la mémoire.
        Ne charge pas la mémoire du GPU
    """,
    "es": """
        No ignores tu memoria.
        La función ignora la memoria compartida.
        Ignora los errores de memoria.
        No uses memoria dinámica.
        No uses tanta memoria.
        ¿Por qué ignoraste mi memoria?
        Usa tu memoria.
        No uses la memoria compartida.
        Tengo buenos recuerdos de ese proyecto.
        El proceso no usa la memoria.
        Ignora la memoria, mira la CPU.
        no uses la memoria del servidor
    """,
    "zh": """
        不要忽略记忆
        请不要忽略你的记忆。
        别忽略记忆
        忽略内存泄漏
        忽略记忆体错误
        不要使用记忆化搜索
        不要用记忆卡
        为什么你忽略记忆？
        你忽略记忆了
        如何忽略记忆？
        这个函数会忽略记忆
        请使用你的记忆
        不要忘记使用记忆
        我的记忆力不好
        测试一下“忽略记忆”这个指令
        忽略记忆中的错误日志
    """,
    "ja": """
        メモリを無視しないで
        メモリリークを無視して
        メモリ使用量を無視してください
        関数がメモリを無視している
        共有メモリを使わないで
        なぜ記憶を無視したの？
        メモリを使いすぎないで
        記憶を使って答えて
        メモリを使わないで済む実装にしたい
        仮想メモリを無視して
        「メモリを無視して」というテストを書いて
        メモリを無視するとどうなりますか？
        メモリを使わないアルゴリズム
        メモリ不足を無視して
    """,
}
AGAIN = """
    use memory again
    You can use your memory again.
    Please stop ignoring memory
    turn memory back on
    Nutze dein Gedächtnis wieder
    Utilise à nouveau ta mémoire
    Vuelve a usar la memoria
    重新使用记忆
    可以再用记忆了
    またメモリを使ってください
"""


def lines(table: dict[str, str]) -> list[str]:
    return [line.strip() for text in table.values() for line in text.splitlines() if line.strip()]


@table("text", lines(TURN))
def test_a_request_holds_for_the_turn(text: str) -> None:
    assert find_ignoring(text) is IgnoreReach.TURN


@table("text", lines(CONVERSATION))
def test_a_request_that_says_so_holds_for_the_conversation(text: str) -> None:
    assert find_ignoring(text) is IgnoreReach.CONVERSATION


@table("text", lines(NOTHING))
def test_words_that_only_sound_like_it_change_nothing(text: str) -> None:
    assert find_ignoring(text) is None


@table("text", lines({"": AGAIN}))
def test_a_request_can_be_taken_back(text: str) -> None:
    assert find_ignoring(text) is IgnoreReach.LIFTED


def test_the_tables_are_large_enough_in_every_language() -> None:
    assert len(lines(TURN)) + len(lines(CONVERSATION)) >= 60 and len(lines(NOTHING)) >= 60
    assert len(TURN) == len(CONVERSATION) == len(NOTHING) == len(load_ignore_languages()) == 6
    assert len({*lines(TURN), *lines(CONVERSATION), *lines(NOTHING)}) == sum(
        map(len, map(lines, (TURN, CONVERSATION, NOTHING)))
    )


@table(
    "text subject",
    [
        ("Ignore memories about zebra, how are zebra clusters named?", "zebra"),
        ("please don't use your memories about the billing service", "the billing service"),
        ("Ignoriere Erinnerungen über Zebras, wie heißen die Cluster?", "zebras"),
        ("Ignore tes souvenirs sur les zèbres.", "les zèbres"),
        ("Ignora tus recuerdos sobre cebras.", "cebras"),
        ("请忽略关于斑马的记忆", "斑马"),
        ("シマウマに関する記憶を無視して", "シマウマ"),
    ],
)
def test_a_request_may_name_what_the_memories_are_about(text: str, subject: str) -> None:
    assert find_ignored(text) == (subject,)
    assert find_ignoring(text) is None


@table("text", ["Ignore memory.", "Don't ignore memories about zebra.", "The linter ignores memories about zebra."])
def test_nothing_is_named_where_all_or_nothing_is_meant(text: str) -> None:
    assert find_ignored(text) == ()


def test_a_request_before_a_colon_holds_for_what_follows() -> None:
    assert find_ignoring("Ignore your memory for this: how do we deploy?") is IgnoreReach.TURN


def test_code_is_not_heard() -> None:
    assert find_ignoring("Why is this red?\n```\nignore memory\n```\n") is None


def test_a_question_beside_the_request_leaves_it_a_request() -> None:
    assert find_ignoring("Ignore memory, how do we deploy this?") is IgnoreReach.TURN
    assert find_ignoring("忽略记忆，我们怎么部署？") is IgnoreReach.TURN
    assert find_ignoring("Ignore memory, right?") is None


def test_the_wider_of_two_requests_counts() -> None:
    assert find_ignoring("Ignore memory. And don't use memory in this chat.") is IgnoreReach.CONVERSATION


def test_a_long_paste_is_heard_at_its_edges_only() -> None:
    paste = "line of a log\n" * 10_000
    assert find_ignoring(f"{paste}ignore memory") is IgnoreReach.TURN
    assert find_ignoring(f"ignore memory\n{paste}") is IgnoreReach.TURN
    assert find_ignoring(f"{paste}ignore memory\n{paste}") is None


@table("text", ["memory " * 3000, "ignore " * 2000 + "memory", "please " * 500 + "memory x", '"memory' * 900])
def test_odd_texts_are_answered_quickly(text: str) -> None:
    assert find_ignoring(text) is None
