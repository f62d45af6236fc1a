"""Lets Spark find the ``rekindle`` format by itself: it looks for packages named ``pyspark_*``."""

from rekindle.streams.datasource import RekindleDataSource as DefaultSource

__all__ = ["DefaultSource"]
