"""Where streams go. A declaration loads neither Spark nor Arrow."""

from rekindle.sinks.console import Console
from rekindle.sinks.files import Files
from rekindle.sinks.foreach import Foreach

__all__ = ["Console", "Files", "Foreach"]
