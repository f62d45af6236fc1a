"""The fixtures that every room of the tests may use."""

from tests.postgres import postgres, postgres_own
from tests.spark import spark

__all__ = ["postgres", "postgres_own", "spark"]
