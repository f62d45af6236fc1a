"""What computing an epoch takes: a part of a node's context, or a bench."""

from __future__ import annotations

from collections.abc import Callable
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
