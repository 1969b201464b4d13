"""Does memory help an agent that repairs code, does it harm, and what does it cost?

    python benchmarks/proof run WORK TASKS --model SPEC [--decoys FILE] [--arms nothing,memdir,…]   everything, one command
    python benchmarks/proof learn WORK TASKS [--decoys FILE] [--model SPEC | --answers FOLDER]
    python benchmarks/proof prepare WORK BLOCK TASKS --arms … [--replay N] [--reports FOLDER] [--memories FOLDER] [--only …]
    python benchmarks/proof play WORK --model SPEC [--limit N]      play what is in the queue with a model
    python benchmarks/proof queue WORK                              which episodes have begun and ended
    python benchmarks/proof agent STATE …                           the ./agent command of an episode
    python benchmarks/proof answer WORK --answers FOLDER --port N    serve a reader's answers to an arm whose model selects
    python benchmarks/proof grade WORK
    python benchmarks/proof figures WORK [--parts FILE] [--json FILE] [--picture FILE]

`PROTOCOL.md` says what is measured and how; `prepare.py` what a task folder has. A queued episode is played by a model (`play`)
or by any fresh agent that is told: "Work on the task in FOLDER: read FOLDER/TASK.md and do what it says."
"""

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("src", "benchmarks", "tests/support")]


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["agent"]:
        from proof.episode import run_agent

        return run_agent(Path(arguments[1]), arguments[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("run", "learn", "prepare", "play", "queue", "answer", "grade", "figures"))
    parser.add_argument("work", type=Path)
    parser.add_argument("names", nargs="*", help="block and tasks")
    parser.add_argument("--arms", default="nothing,bm25,memdir,decision", type=lambda text: text.split(","))
    parser.add_argument("--replay", type=int, default=1)
    parser.add_argument("--reports", type=Path)
    parser.add_argument("--memories", type=Path)
    parser.add_argument("--decoys", type=Path)
    parser.add_argument("--only", default=[], type=lambda text: text.split(","))
    parser.add_argument("--series", action="store_true", help="a helper may play several episodes, of one arm")
    parser.add_argument("--model", default="")
    parser.add_argument("--answers", type=Path, help="a folder of a reader's answers, instead of a model")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument(
        "--selector", default="", help="address of a server that answers for the arm whose model selects"
    )
    parser.add_argument("--limit", type=int, default=10_000)
    parser.add_argument("--parts", type=Path, help="for each task the expressions that its decision must match")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--memdir", default=str(Path(sys.executable).with_name("memdir")), type=str)
    parser.add_argument("--python", default=sys.executable, help="an interpreter with pytest, for the tests")
    parser.add_argument("--play", type=Path, help="where the agents' folders are, by default WORK/play")
    parser.add_argument(
        "--hide", default=[], type=lambda text: text.split(","), help="folders that commands cannot see"
    )
    options = parser.parse_args(arguments)
    from proof.learning import RecordedAnswers, find_memories, learn, make_login, serve_answers
    from proof.prepare import Block, Work, list_queue, prepare

    options.work.mkdir(parents=True, exist_ok=True, mode=0o700)
    memdir = options.memdir.split()
    work = Work(options.work, options.play or options.work / "play", memdir, options.python, options.hide)
    tasks = Path(options.names[-1]).resolve() if options.names else Path()
    if options.verb in ("run", "learn"):
        if options.answers is not None:
            with serve_answers(options.answers) as server:
                learn(options.work, tasks, options.decoys, memdir, make_login(server.address))
        else:
            keys = {name: value for name, value in os.environ.items() if name.endswith(("_KEY", "_BASE_URL", "_HOST"))}
            learn(options.work, tasks, options.decoys, memdir, {**keys, "MEMDIR_MODEL": options.model})
    if options.verb in ("run", "prepare"):
        block = Block(
            "first" if options.verb == "run" else options.names[0],
            tasks,
            options.arms,
            options.replay,
            options.reports,
            options.memories or find_memories(options.work),
            options.decoys,
            options.only,
            options.series,
            make_login(options.selector) if options.selector else {"MEMDIR_MODEL": options.model or "none"},
        )
        for folder in prepare(work, block):
            print(folder)
    if options.verb in ("run", "play"):
        from proof.play import play

        play(work, options.model, options.limit)
    if options.verb == "queue":
        print("\n".join(list_queue(work)))
    if options.verb == "answer":
        RecordedAnswers(options.answers, waits=False, port=options.port).serve_forever()
    if options.verb in ("run", "grade"):
        from proof.grading import grade

        for state in sorted(work.states.iterdir()):
            if not (state / "grade.json").exists():
                grade(state)
    if options.verb in ("run", "figures"):
        from proof.figures import print_figures

        print_figures(work.states, options.parts, options.json, options.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
