"""What the user declares: a pipeline of sources, streams and sinks.

Declaring does nothing but remember: no Spark, no files. Every declaration keeps the file and the line
where it was made, and every error about it says so. ``plan.check`` looks at the graph as a whole.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rekindle.errors import DeclarationError
from rekindle.keeper.records import check_name
from rekindle.recovery.policy import GUARANTEES, Policy
from rekindle.recovery.rollback import Rollback

if TYPE_CHECKING:
    from rekindle.sinks.base import Sink
    from rekindle.sources.base import Source

OUTPUT_MODES = ("append", "update", "complete")
STATES = ("rocksdb", "memory")
DEFAULT_NODE = "main"
POOL = "pool"
"""The name that warm nodes bear until they are needed."""

Operator = TypeVar("Operator", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Place:
    """The file and line of a declaration."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class SourceDeclaration:
    name: str
    source: Source
    node: str
    rows_max: int
    retain_s: float | None
    place: Place


@dataclass(frozen=True, slots=True)
class StreamDeclaration:
    name: str
    operator: Callable[..., Any]
    inputs: tuple[str, ...]
    output_mode: str
    deterministic: bool | None
    keep: bool
    node: str
    rows_max: int
    partitions: int | None
    state: str
    recovery: Policy
    guarantee: str | None
    retain_s: float | None
    place: Place


@dataclass(frozen=True, slots=True)
class SinkDeclaration:
    name: str
    stream: str
    sink: Sink
    node: str
    place: Place


@dataclass(frozen=True, slots=True)
class Settings:
    """What a pipeline's nodes and supervisor go by. Times in seconds.

    A node that sends no heartbeat for ``lease_s`` is fenced and replaced. An epoch whose computation
    raises is tried ``attempts_max`` times before its fragment stops. An idle stateful fragment claims one
    empty epoch ``settle_s`` after its last input, so that its watermark takes effect. A source that always has
    something new makes an epoch every ``pace_s`` at the most; what comes after a pause is taken at once.
    ``pool`` warm nodes wait for any node that dies. An epoch that nobody in the pipeline needs any more is removed
    when it is ``retain_s`` old, if its stream says nothing else.
    """

    heartbeat_s: float = 0.5
    lease_s: float = 10.0
    start_s: float = 120.0
    attempts_max: int = 3
    settle_s: float = 0.2
    pace_s: float = 0.1
    zombie_s: float = 60.0
    restarts_max: int = 5
    pool: int = 0
    retain_s: float = 3600.0
    spark: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.heartbeat_s < self.lease_s:
            raise DeclarationError(
                f"heartbeat_s ({self.heartbeat_s}) must be above 0 and below lease_s ({self.lease_s})",
                hint="a lease of ten heartbeats or more tolerates a busy machine",
            )
        if self.attempts_max < 1:
            raise DeclarationError("attempts_max must be at least 1")
        if not isinstance(self.pool, int) or self.pool < 0:
            raise DeclarationError(f"pool must be a number of nodes, not {self.pool!r}")
        if not self.retain_s >= 0:
            raise DeclarationError(f"retain_s must be a number of seconds, not {self.retain_s!r}")


class Pipeline:
    """A graph of streams.

    >>> pipeline = Pipeline("words")
    >>> @pipeline.stream
    ... def shouted(words):
    ...     return words.selectExpr("upper(word) AS word")
    >>> pipeline.streams["shouted"].inputs
    ('words',)
    """

    def __init__(self, name: str, *, settings: Settings | None = None, recovery: Policy | None = None) -> None:
        self.place = _caller()
        self.name = check_name(name, "pipeline", where=str(self.place))
        self.settings = settings or Settings()
        self.recovery = _policy(recovery, self.place) or Rollback()
        self.sources: dict[str, SourceDeclaration] = {}
        self.streams: dict[str, StreamDeclaration] = {}
        self.sinks: dict[str, SinkDeclaration] = {}

    def source(
        self,
        name: str,
        source: Source,
        *,
        node: str = DEFAULT_NODE,
        rows_max: int = 1_000_000,
        retain_s: float | None = None,
    ) -> None:
        """Declare the stream ``name``, fed from outside. An epoch takes at most about ``rows_max`` rows."""
        place = _caller()
        self._check_new(name, place)
        self.sources[name] = SourceDeclaration(
            name, source, _node(node, place), _positive(rows_max, "rows_max", place), _retained(retain_s, place), place
        )

    @overload
    def stream(self, operator: Operator, /) -> Operator: ...

    @overload
    def stream(
        self,
        operator: None = None,
        /,
        *,
        name: str | None = ...,
        output_mode: str = ...,
        deterministic: bool | None = ...,
        keep: bool = ...,
        node: str = ...,
        rows_max: int = ...,
        partitions: int | None = ...,
        state: str = ...,
        recovery: Policy | None = ...,
        guarantee: str | None = ...,
        retain_s: float | None = ...,
    ) -> Callable[[Operator], Operator]: ...

    def stream(
        self,
        operator: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        output_mode: str = "append",
        deterministic: bool | None = None,
        keep: bool = False,
        node: str = DEFAULT_NODE,
        rows_max: int = 2_000_000,
        partitions: int | None = None,
        state: str = "rocksdb",
        recovery: Policy | None = None,
        guarantee: str | None = None,
        retain_s: float | None = None,
    ) -> Any:
        """Declare a stream by the operator that computes it. The parameters' names are its inputs.

        ``name``           the stream's name; the function's, unless given
        ``output_mode``    append, update or complete, as in Structured Streaming
        ``deterministic``  what you know of the operator; None lets the plan decide
        ``keep``           write the stream even if it could be fused into its only reader
        ``node``           the process that computes it
        ``rows_max``       about how many rows an epoch takes in at most
        ``partitions``     over how many partitions its state is spread; the node's cores, unless given
        ``state``          where its state lives: ``rocksdb``, or ``memory``, the JVM's heap
        ``recovery``       how it comes back when its node dies; the pipeline's policy, unless given
        ``guarantee``      precise, at-least-once or at-most-once: refused if the stream or a sink of it gives less
        ``retain_s``       how old its epochs get at least; the settings' ``retain_s``, unless given
        """
        place = _caller()

        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
            stream = name if name is not None else getattr(function, "__name__", "")
            self._check_new(stream, place)
            _one_of(output_mode, OUTPUT_MODES, f"stream {stream!r} has the unknown output mode", place)
            _one_of(state, STATES, f"stream {stream!r} keeps its state in the unknown place", place)
            if partitions is not None:
                _positive(partitions, "partitions", place)
            if guarantee is not None:
                _one_of(guarantee, GUARANTEES, f"stream {stream!r} declares the unknown guarantee", place)
            self.streams[stream] = StreamDeclaration(
                name=stream,
                operator=function,
                inputs=_inputs(stream, function, place),
                output_mode=output_mode,
                deterministic=deterministic,
                keep=keep,
                node=_node(node, place),
                rows_max=_positive(rows_max, "rows_max", place),
                partitions=partitions,
                state=state,
                recovery=_policy(recovery, place) or self.recovery,
                guarantee=guarantee,
                retain_s=_retained(retain_s, place),
                place=place,
            )
            return function

        return declare if operator is None else declare(operator)

    def sink(self, stream: str, sink: Sink, *, name: str | None = None, node: str = DEFAULT_NODE) -> None:
        """Deliver every epoch of ``stream`` to ``sink``, once and in order."""
        place = _caller()
        sink_name = check_name(name if name is not None else f"{stream}_sink", "sink", where=str(place))
        if sink_name in self.sinks:
            raise DeclarationError(
                f"sink {sink_name!r} is declared twice",
                detail=f"{place}, and before at {self.sinks[sink_name].place}",
                hint="give the second one a name of its own: sink(..., name='...')",
            )
        known = self.sources.get(sink_name) or self.streams.get(sink_name)
        if known is not None:
            raise DeclarationError(
                f"sink {sink_name!r} has the name of a stream",
                detail=f"{place}, and the stream at {known.place}",
                hint="what is on record of them would be mixed up; give the sink another name: sink(..., name='...')",
            )
        self.sinks[sink_name] = SinkDeclaration(sink_name, stream, sink, _node(node, place), place)

    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes that the declarations ask for."""
        places = [d.node for d in self.sources.values()]
        places += [d.node for d in self.streams.values()] + [d.node for d in self.sinks.values()]
        return tuple(sorted(set(places)))

    def _check_new(self, name: str, place: Place) -> None:
        check_name(name, "stream", where=str(place))
        known = self.sources.get(name) or self.streams.get(name)
        if known is not None:
            raise DeclarationError(
                f"stream {name!r} is declared twice",
                detail=f"{place}, and before at {known.place}",
                hint="a stream's name is the key of its state: rename one of them",
            )
        if name in self.sinks:
            raise DeclarationError(
                f"stream {name!r} has the name of a sink",
                detail=f"{place}, and the sink at {self.sinks[name].place}",
                hint="what is on record of them would be mixed up; give the sink another name: sink(..., name='...')",
            )


def _inputs(stream: str, function: Callable[..., Any], place: Place) -> tuple[str, ...]:
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in plain:
            raise DeclarationError(
                f"stream {stream!r} takes *{parameter.name}, but its inputs must be named",
                detail=str(place),
                hint="write one parameter for each input stream",
            )
        if parameter.default is inspect.Parameter.empty:
            names.append(parameter.name)
    if not names:
        raise DeclarationError(
            f"stream {stream!r} has no input",
            detail=str(place),
            hint="its parameters' names are its inputs; what comes from outside is pipeline.source(...)",
        )
    return tuple(names)


def _positive(value: int, what: str, place: Place) -> int:
    if not isinstance(value, int) or value < 1:
        raise DeclarationError(f"{what} must be a whole number above 0, not {value!r}", detail=str(place))
    return value


def _one_of(value: str, known: Sequence[str], what: str, place: Place) -> None:
    if value not in known:
        raise DeclarationError(f"{what} {value!r}", detail=str(place), hint=f"one of {', '.join(known)}")


def _node(node: str, place: Place) -> str:
    check_name(node, "node", where=str(place))
    if node == POOL:
        raise DeclarationError(
            f"node {node!r} is a reserved name", detail=str(place), hint="it is what warm nodes are called"
        )
    return node


def _policy(recovery: object, place: Place) -> Policy | None:
    if recovery is None or isinstance(recovery, Policy):
        return recovery
    raise DeclarationError(
        f"recovery must be a policy, not {recovery!r}",
        detail=str(place),
        hint="rk.Rollback(), rk.PassiveStandby(), rk.ActiveStandby(), rk.UpstreamBackup() or rk.Gap()",
    )


def _retained(retain_s: float | None, place: Place) -> float | None:
    if retain_s is not None and not retain_s >= 0:
        raise DeclarationError(f"retain_s must be a number of seconds, not {retain_s!r}", detail=str(place))
    return retain_s


def _caller() -> Place:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)
