"""Where streams come from. A declaration loads neither Spark nor Arrow."""

from rekindle.sources.files import Files
from rekindle.sources.rate import Rate
from rekindle.sources.spark import Spark

__all__ = ["Files", "Rate", "Spark"]
