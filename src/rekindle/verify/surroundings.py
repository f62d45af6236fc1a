"""What faults need around a run before it starts: a small disk, a slow one, a server behind a proxy.

What cannot be had here is no error: the faults that need it say why they were not injected.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType

from rekindle.errors import DeclarationError
from rekindle.verify import faults_keeper as keepers
from rekindle.verify import faults_processes as processes
from rekindle.verify import faults_storage as storage
from rekindle.verify.faults import KEEPER, NotInjected
from rekindle.verify.faults_keeper import FROM, TO, Proxy
from rekindle.verify.inject import Action
from rekindle.verify.postgres import PostgresMissing, PostgresServer
from rekindle.verify.trial import Place, Trial

NO_SERVER = "the keeper is SQLite in the home, which no network leads to: try it with --keeper postgresql"


@dataclass(slots=True)
class Ready:
    """What one run is given."""

    home: Path | None = None
    place: Place = field(default_factory=Place)
    environment: dict[str, str] = field(default_factory=dict)
    known: dict[str, Action] = field(default_factory=dict)


class Surroundings:
    """Of a whole verification. A context: what was made is taken down at the end."""

    def __init__(self, folder: Path, *, postgres: bool, lease_s: float) -> None:
        self._folder = folder
        self._postgres = postgres
        self._lease_s = lease_s
        self._server: PostgresServer | None = None
        self._databases = 0
        self._stack = ExitStack()

    def __enter__(self) -> Surroundings:
        if self._postgres:
            try:
                self._server = self._stack.enter_context(PostgresServer())
            except PostgresMissing as missing:
                raise DeclarationError(
                    "there is no PostgreSQL here to verify with",
                    detail=str(missing),
                    hint="install it (Debian: apt-get install postgresql), or leave --keeper out",
                ) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._stack.close()

    @contextmanager
    def prepared(self, folder: Path, kinds: Collection[str], *, keep: bool = True) -> Iterator[Ready]:
        """What a run with these kinds of faults needs. ``keep`` copies the home off the small disk at the end."""
        with ExitStack() as stack:
            ready = Ready(known=self._usual())
            if "full-disk" in kinds:
                try:
                    ready.home = stack.enter_context(storage.small_disk(folder)) / "home"
                    if keep:
                        stack.callback(_keep, ready.home, folder / "home")
                except NotInjected as reason:
                    ready.known["full-disk"] = _refused(str(reason))
            if "slow-disk" in kinds:
                try:
                    slow = storage.slow_disk(folder)
                    ready.environment |= slow.environment
                    ready.known["slow-disk"] = slow.slow
                except NotInjected as reason:
                    ready.known["slow-disk"] = _refused(str(reason))
            if self._server is not None:
                self._databases += 1
                direct = self._server.database(f"run_{self._databases}")
                proxy = stack.enter_context(Proxy(self._server.port))
                ready.place = Place(direct, direct.replace(f":{self._server.port}/", f":{proxy.own_port}/"))
                ready.known |= self._of_keeper(self._server, proxy)
            yield ready

    def _usual(self) -> dict[str, Action]:
        usual: dict[str, Action] = {
            "kill-node": processes.kill_node,
            "kill-jvm": processes.kill_jvm,
            "kill-worker": processes.kill_worker,
            "kill-supervisor": processes.kill_supervisor,
            "kill-all": processes.kill_all,
            "stop-node": partial(processes.stop_node, lease_s=self._lease_s),
            "jump-clock": processes.jump_clock,
            "full-disk": storage.full_disk,
            "corrupt-segment": storage.corrupt_segment,
            "missing-segment": storage.missing_segment,
            "corrupt-layer": storage.corrupt_layer,
            "missing-layer": storage.missing_layer,
        }
        return usual | {kind: _refused(NO_SERVER) for kind in KEEPER}

    def _of_keeper(self, server: PostgresServer, proxy: Proxy) -> dict[str, Action]:
        cut: Callable[..., str] = partial(keepers.cut, proxy=proxy, lease_s=self._lease_s)
        return {
            "restart-keeper": partial(keepers.restart_keeper, server=server),
            "cut-keeper": partial(cut, directions=(TO, FROM)),
            "cut-to-keeper": partial(cut, directions=(TO,)),
            "cut-from-keeper": partial(cut, directions=(FROM,)),
        }


def _refused(why: str) -> Action:
    def refuse(trial: Trial, pick: float) -> str:
        raise NotInjected(why)

    return refuse


def _keep(home: Path, to: Path) -> None:
    """What lay on the small disk is looked at afterwards."""
    if home.exists():
        shutil.copytree(home, to)
