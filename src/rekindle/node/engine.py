"""What computing an epoch takes: a part of a node's context, or all that there is where no node is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import SparkSession

from rekindle.home import Home
from rekindle.node.traits import Analysis


class Engine(Protocol):
    """``home`` holds the segments that are read, ``cores`` is how many partitions a shuffle has unless declared."""

    @property
    def home(self) -> Home: ...

    @property
    def spark(self) -> SparkSession: ...

    @property
    def cores(self) -> int: ...

    @property
    def analysis(self) -> Analysis: ...

    @property
    def clock(self) -> Callable[[], float]: ...


@dataclass(frozen=True, slots=True)
class Bench:
    """An engine without a node: what is computed on it is for comparing only."""

    home: Home
    spark: SparkSession
    cores: int
    analysis: Analysis
    clock: Callable[[], float]
