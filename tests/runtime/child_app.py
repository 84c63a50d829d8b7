"""The app of the tests with children: handlers that do, in a process of their own, what no thread would survive."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

import perenne
from perenne import App, Context, GiveUp, Kind, Snooze, tools
from perenne.runtime import drain

LIMITS = tools.Limits(
    wall_s=60,
    cpu_s=60,
    address_space_bytes=1 << 30,
    file_size_bytes=1 << 20,
    descriptors=64,
    stdout_bytes=1024,
    stderr_bytes=1024,
)


class Order(msgspec.Struct, frozen=True):
    """What a handler is to do, and the file through which it and the test talk."""

    what: str = ""
    path: str = ""


def act(context: Context, order: Order) -> Any:
    """Do what is ordered, by its name in this module."""
    return globals()[order.what](context, order)


def tell(order: Order, word: object) -> None:
    """Let the test know."""
    descriptor = os.open(order.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{word}\n".encode())
    os.close(descriptor)


def forever() -> None:
    while True:
        threading.Event().wait(60)


def work(context: Context, order: Order) -> dict[str, Any]:
    return {"pid": os.getpid(), "parent": os.getppid(), "attempt": context.attempt, "job": context.job_id}


def use_every_verb(context: Context, order: Order) -> dict[str, Any]:
    context.boundary()
    context.progress(1, 2, "half")
    context.keep_progress()
    context.log("at work", level="warning", half=True)
    (context.stage / "scratch").write_text("private")
    context.may_publish()
    published = context.publish(lambda publication: publication.job_id)
    return {
        "published": published,
        "ids": context.publication.ids,
        "stage": str(context.stage),
        "deadline": context.deadline,
        "stop": context.stop.asked,
        "workspace": str(context.workspace),
    }


def print_things(context: Context, order: Order) -> None:
    print("one")
    print("a", "b", sep="\n", end="")
    print("half", end="", file=sys.stderr)


def segfault(context: Context, order: Order) -> None:
    ctypes.string_at(0)


def exit_at_once(context: Context, order: Order) -> None:
    os._exit(3)


def exit_politely(context: Context, order: Order) -> None:
    sys.exit(4)


def close_everything(context: Context, order: Order) -> str:
    os.closerange(0, 1024)
    return "closed"


def close_and_write(context: Context, order: Order) -> str:
    """The numbers of the child's own descriptors become those of a file of the handler."""
    mine = os.open(order.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    for number in range(3, 64):
        os.dup2(mine, number)
    return "closed"


def fork_and_return(context: Context, order: Order) -> str:
    """Both processes return."""
    return "child" if os.fork() else "copy"


def fork_and_ask(context: Context, order: Order) -> str:
    """The copy uses the context."""
    if os.fork():
        os.wait()
        return "child"
    try:
        context.may_publish()
    except perenne.errors.NotAllowed as error:
        tell(order, f"refused: {error}")
    return "copy"


def fork_and_stay(context: Context, order: Order) -> str:
    """The copy leaves the group and stays."""
    if os.fork() == 0:
        os.setsid()
        tell(order, os.getpid())
        forever()
    while not Path(order.path).exists():
        time.sleep(0.002)  # reason: the copy says nothing else
    return "child"


def fork_natively_and_crash(context: Context, order: Order) -> None:
    """A copy that Python does not know of keeps whatever it can, and its original is gone."""
    # With the lock of the interpreter kept: the copy has no other thread that could let go of it.
    if ctypes.PyDLL(None).fork() == 0:
        os.setsid()
        tell(order, os.getpid())
        forever()
    while not Path(order.path).exists():
        time.sleep(0.002)  # reason: the copy says nothing else
    os._exit(5)


def block_signals(context: Context, order: Order) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    tell(order, os.getpid())
    forever()


def recurse(context: Context, order: Order) -> None:
    recurse(context, order)


def allocate(context: Context, order: Order) -> None:
    held = []
    while True:
        held.append(bytearray(16 << 20))


def hold_much(context: Context, order: Order) -> int:
    return len(bytearray(b"x") * (64 << 20))


KEPT: list[bytearray] = []


def keep_some(context: Context, order: Order) -> dict[str, Any]:
    KEPT.append(bytearray(b"x") * (8 << 20))
    return work(context, order)


def keep_much(context: Context, order: Order) -> dict[str, Any]:
    KEPT.append(bytearray(b"x") * (128 << 20))
    return work(context, order)


class Odd(BaseException):
    """What no handler should raise."""


def raise_base(context: Context, order: Order) -> None:
    raise Odd("odd")


def fail(context: Context, order: Order) -> None:
    raise ValueError("on purpose")


def return_an_object(context: Context, order: Order) -> object:
    return object()


def return_too_much(context: Context, order: Order) -> str:
    return "x" * (300 * 1024)


def snooze(context: Context, order: Order) -> Snooze:
    return Snooze(60, "later")


def give_up(context: Context, order: Order) -> GiveUp:
    return GiveUp("never")


def stick(context: Context, order: Order) -> None:
    """Never reach a boundary."""
    tell(order, os.getpid())
    forever()


def stick_natively(context: Context, order: Order) -> None:
    """Never reach a boundary, and let no thread of this process run."""
    tell(order, os.getpid())
    ctypes.PyDLL(None).sleep(60)


def go_on(context: Context, order: Order) -> str:
    """Reach one boundary after the other."""
    tell(order, os.getpid())
    while True:
        context.boundary()
        threading.Event().wait(0.002)


def clean_up(context: Context, order: Order) -> None:
    """Never reach a boundary, but leave in order."""
    tell(order, "at work")
    try:
        forever()
    finally:
        tell(order, "cleaned up")


def use_a_tool(context: Context, order: Order) -> str:
    tell(order, os.getpid())
    return str(tools.run(["/bin/sleep", "60"], cwd=Path("/"), limits=LIMITS, stop=context.stop).kind)


def ask_afterwards(context: Context, order: Order) -> str:
    """A thread of the handler goes on when it has returned."""

    def later() -> None:
        while True:
            try:
                context.log("still here")
            except perenne.errors.StaleToken as error:
                tell(order, error)
                return

    threading.Thread(target=later).start()
    return "returned"


def say_a_lot(context: Context, order: Order) -> None:
    context.log("x" * (2 << 20))
    context.log("short")


if os.environ.get("PERENNE_TEST_BREAK_IMPORT"):
    raise RuntimeError("broken on purpose")


def kind_of(name: str, **fields: Any) -> Kind:
    return Kind(f"child.{name}", 1, act, Order, isolation="process", **fields)


PLAIN = kind_of("plain", max_attempts=1)
AGAIN = kind_of("again", max_attempts=3)
BRIEF = kind_of("brief", max_attempts=1, wall_limit_s=0.3)
SMALL = kind_of("small", max_attempts=1, memory_limit_bytes=512 << 20)
app = App("children", [PLAIN, AGAIN, BRIEF, SMALL], queues={"default": 100_000})


tasks = App("tasks")


@tasks.task(isolation="process", wall_limit_s=60)
def halve(context: Context, number: int, twice: bool = False) -> dict[str, float]:
    """A task in a process of its own, which says where it runs."""
    context.boundary()
    return {"half": number / (4 if twice else 2), "pid": os.getpid()}


def main(root: str, slots: str, grace_s: str) -> None:
    """A worker that stays, told how long to be patient."""
    drain.GRACE_S = float(grace_s)
    with perenne.open(root, app, access="work") as engine:
        worker = engine.worker(slots=int(slots))
        stop = worker.stop

        def tell_and_stop() -> None:
            stop()
            print("told", flush=True)

        worker.stop = tell_and_stop  # type: ignore[method-assign]
        print("ready", flush=True)
        worker.run(stay=True)


if __name__ == "__main__":
    # As a program this file is not the module in which a child would look.
    import child_app

    child_app.main(*sys.argv[1:])
