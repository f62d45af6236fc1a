"""One Spark session, configured as a node's, for every test that is not about processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from rekindle.node.session import start_session

    conf = {"spark.driver.memory": "1g", "spark.log.level": "ERROR"}
    session = start_session("tests", cores=2, conf=conf, scratch=tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
