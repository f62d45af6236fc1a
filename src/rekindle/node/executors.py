"""Spark's executors: losing one is Spark's own matter, no reason to take a node for dead. It is told all the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from pyspark.sql import SparkSession

LOOK_S = 1.0


UNNAMED = ":0"  # an executor that is just registering has no port yet


class Executors:
    """``look`` returns those that were lost since it was last called, of those that are registered."""

    def __init__(self, there: Callable[[], Iterable[str]]) -> None:
        self._there = there
        self._known: frozenset[str] = frozenset()

    def look(self) -> list[str]:
        now = frozenset(name for name in self._there() if not name.endswith(UNNAMED))
        lost = self._known - now
        self._known = now
        return sorted(lost)


def watch_executors(spark: SparkSession, stopping: threading.Event, tell: Callable[[str], None]) -> None:
    """Tell of each executor that is lost, by its host and port, from a thread of its own. A session whose driver does
    all the work has none. The thread ends with the JVM, whose end the node notices by itself."""
    context = spark.sparkContext
    if str(context.master).startswith("local["):
        return
    tracker = context._jsc.sc().statusTracker()
    driver = context.getConf().get("spark.driver.port") or ""

    def there() -> Iterable[str]:
        found = [f"{info.host()}:{info.port()}" for info in tracker.getExecutorInfos()]
        return [executor for executor in found if not executor.endswith(f":{driver}")]

    def watch() -> None:
        executors = Executors(there)
        while not stopping.wait(LOOK_S):
            for executor in executors.look():
                tell(executor)

    threading.Thread(target=watch, name="executors", daemon=True).start()
