"""Courtesy: a node that comes up beside others that work leaves the processor to them.

Linux shares the processor between sessions (autogroups), and every node is a session of its own. A session's share can
be lowered and raised again without privileges, unlike a process's niceness. Where there are no autogroups (a kernel
without them, or control groups that divide the processor in another way) nothing happens.
"""

from __future__ import annotations

import logging
from pathlib import Path

log = logging.getLogger("rekindle.node")
AUTOGROUP = Path("/proc/self/autogroup")
LOW = 5


class Courtesy:
    def __init__(self, file: Path = AUTOGROUP) -> None:
        self._file = file
        self._low = False

    def yield_to_others(self) -> None:
        """Take only what the others leave, until ``take_part``."""
        self._low = self._set(LOW)

    def take_part(self) -> None:
        """Take the share of one who works. Costs nothing if it is so already."""
        if self._low:
            self._low = not self._set(0)

    def _set(self, nice: int) -> bool:
        try:
            self._file.write_text(str(nice))
        except OSError as error:
            log.info("the session's share of the processor stays as it is: %s", error)
            return False
        return True
