"""What the code under test finds in place of threads, time, processes and Spark. Set once for a whole process.

Everything named here is the edge of the product: whatever lies inside is the real code.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

from rekindle.errors import RekindleError
from tests.simulation import hosts, paper
from tests.simulation.clockwork import VirtualThreading, VirtualTime

if TYPE_CHECKING:
    from tests.simulation.world import World

ROOMS = {
    "keeper": "keeper",
    "node": "claims deliver ingest jump ownership process query replay shipping stateful stateless trim worker",
    "state": "backup checkpoint couriers inbox layers restore retention",
    "streams": "writer segments",
    "supervisor": "chronicle leases lives roster supervise",
}
POLLS = {"node.ingest": {"POLL_S": 0.4}, "node.query": {"WATCH_S": 0.6, "POLL_S": 0.1}, "node.trim": {"EVERY_S": 1.5}}
"""Pauses of loops that only look whether there is something to do: longer, since each look costs a turn."""

HOST = "host"


class Playing:
    """The world that is on stage now."""

    world: World


def now_playing() -> World:
    return Playing.world


class Steps:
    """In place of node.steps.Steps: every step is a point where something may happen."""

    kill_jvm: Callable[[], None]
    job_group: Callable[[], str]
    busy: Callable[[str], bool]

    @staticmethod
    def from_environment(_: object) -> Steps:
        return Steps()

    def at(self, step: str, subject: str, epoch: int) -> None:
        now_playing().point(f"{step} {subject} {epoch}")

    def computing(self, subject: str, epoch: int) -> Callable[[], None]:
        self.at("during_compute", subject, epoch)
        return lambda: None


class VirtualOs:
    """os, but for the process that one is."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @staticmethod
    def getpid() -> int:
        running = now_playing().loop.current.process
        return running.pid if isinstance(running, hosts.NodeProcess) else 1


@dataclass
class Answers:
    """state.couriers._Answers, on virtual threads."""

    def __init__(self) -> None:
        self.by_store: dict[str, object] = {}
        self.changed = THREADS.Condition()


class InPlace:
    """In place of a ThreadPoolExecutor: does at once what it is given."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> InPlace:
        return self

    def __exit__(self, *_: object) -> None: ...

    def submit(self, act: Callable[..., Any], *given: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(act(*given))
        except Exception as error:
            future.set_exception(error)
        return future

    map = staticmethod(map)


class Jvm:
    """The process of a node's JVM: it lives as long as the node."""

    pid = 0

    def wait(self) -> int:
        now_playing().loop.block(None)
        return 0


class NoSuchProcess(Exception):
    """Never raised."""


def die(error: BaseException) -> NoReturn:
    world: World = now_playing()
    world.tell(f"dies of {type(error).__name__}: {error}")
    world.judge_death(error)
    world.machine.end(world.loop.current.process, error.exit_code if isinstance(error, RekindleError) else 1)
    raise AssertionError("a dead process went on")


THREADS = VirtualThreading(lambda: now_playing().loop)
TIME = VirtualTime(lambda: now_playing().loop)


def _token() -> str:
    return f"{now_playing().random.getrandbits(48):012x}"


def set_the_stage() -> None:
    """Every name that is replaced must be there."""
    logging.disable(logging.CRITICAL)
    rooms = {
        f"{r}.{n}": importlib.import_module(f"rekindle.{r}.{n}") for r, names in ROOMS.items() for n in names.split()
    }
    for module in rooms.values():
        for name, stand_in in (("threading", THREADS), ("time", TIME)):
            if hasattr(module, name):
                setattr(module, name, stand_in)
    for place, values in POLLS.items():
        for name, value in values.items():
            _replace(rooms[place], name, value)
    for place in ("node.ingest", "node.stateful", "node.stateless", "node.replay"):
        _replace(rooms[place], "EpochWriter", paper.PaperWriter)
    _replace(rooms["node.stateful"], "observe", paper.observe)
    for place in ("node.replay", "state.inbox"):
        _replace(rooms[place], "pq", paper.PaperParquet)
    for place in ("node.replay", "node.query", "node.deliver"):
        _replace(rooms[place], "arrow_schema", paper.arrow_schema)
    _replace(rooms["streams.writer"], "_fsyncs", InPlace())
    _replace(rooms["state.restore"], "ThreadPoolExecutor", InPlace)
    _replace(rooms["state.couriers"], "_Answers", Answers)
    shipping = rooms["node.shipping"]
    _replace(shipping, "Backup", partial(shipping.Backup, monotonic=TIME.monotonic, token=_token))
    _replace(shipping, "open_stores", lambda urls, home: [now_playing().store(url) for url in urls])
    _replace(rooms["keeper.keeper"], "uuid", SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=_token())))
    _set_the_process(rooms["node.process"])
    _set_the_supervisor(rooms)


def _set_the_process(process: Any) -> None:
    calls: dict[str, Any] = {
        "signal": SimpleNamespace(signal=lambda *_: None, SIGTERM=0, SIGINT=0),
        "os": VirtualOs(),
        "socket": SimpleNamespace(gethostname=lambda: HOST),
        "psutil": SimpleNamespace(
            Process=lambda pid: SimpleNamespace(status=lambda: "running"), STATUS_ZOMBIE="", NoSuchProcess=NoSuchProcess
        ),
        "wall": TIME.time,
        "open_home": lambda root: now_playing().home,
        "open_keeper": lambda *_, **__: now_playing().keeper,
        "load_pipeline": lambda file: now_playing().specimen.pipeline,
        "start_session": lambda *_, **__: now_playing().session(),
        "analyse": lambda *_: now_playing().specimen.analysis,
        "watch_executors": lambda *_: None,
        "Courtesy": partial(process.Courtesy, Path(os.devnull)),
        "Steps": Steps,
        "_die": die,
        "_start_ticks": VirtualOs.getpid,
    }
    for name, stand_in in calls.items():
        _replace(process, name, stand_in)


def _set_the_supervisor(rooms: dict[str, Any]) -> None:
    supervise = rooms["supervisor.supervise"]
    _replace(supervise, "os", VirtualOs())
    _replace(supervise, "Processes", lambda home_id: hosts.Processes(now_playing().machine))
    _replace(supervise, "Chronicle", partial(supervise.Chronicle, clock=TIME.time))
    _replace(rooms["supervisor.lives"], "start_ticks", lambda pid: pid)


def _replace(module: Any, name: str, stand_in: Any) -> None:
    getattr(module, name)  # it must be there, or nothing would be replaced
    setattr(module, name, stand_in)
