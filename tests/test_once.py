import threading

from memdir.frozen import once


def test_what_many_threads_need_at_the_same_moment_is_made_once() -> None:
    made: list[str] = []
    ready = threading.Barrier(8)

    @once
    def make(name: str) -> str:
        made.append(name)
        return name.upper()

    got: list[str] = []

    def ask() -> None:
        ready.wait(30)
        got.append(make("a"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert got == ["A"] * 8 and made == ["a"]
    assert make("b") == "B" and make("a") == "A" and made == ["a", "b"]


def test_one_thing_that_is_made_once_may_need_another() -> None:
    @once
    def inner(number: int) -> int:
        return number + 1

    @once
    def outer(number: int) -> int:
        return inner(number) * 2

    assert outer(1) == 4


def test_what_could_not_be_made_is_tried_again() -> None:
    tries: list[int] = []

    @once
    def make(number: int) -> int:
        tries.append(number)
        return 1 // (len(tries) - 1)

    try:
        make(5)
    except ZeroDivisionError:
        pass
    assert make(5) == 1 and len(tries) == 2
