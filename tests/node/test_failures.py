"""What a failure is about."""

from __future__ import annotations

import pytest

from rekindle.errors import SegmentDamaged, StateDamaged
from rekindle.node.failures import is_about_state


@pytest.mark.parametrize(
    ("error", "about_state"),
    [
        (StateDamaged("the checkpoint of 'counts' at epoch 1 has no good copy of manifest.json"), True),
        (RuntimeError("[CANNOT_LOAD_STATE_STORE.CANNOT_READ_CHECKPOINT] An error occurred"), True),
        (RuntimeError("[DIVIDE_BY_ZERO] Division by zero"), False),
        (SegmentDamaged("a segment of epoch 3 is damaged"), False),
    ],
)
def test_what_makes_a_checkpoint_be_distrusted(error: Exception, about_state: bool) -> None:
    assert is_about_state(error) is about_state
