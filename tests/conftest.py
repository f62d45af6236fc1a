"""The fixtures that every room of the tests may use."""

from tests.spark import spark

__all__ = ["spark"]
