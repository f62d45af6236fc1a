"""Recovery: for each fragment the policy that its user chose. Here is decided, nothing is touched.

Every policy is made of the same parts: how many nodes host a replica, which of them compute, whether layers are
shipped, and from where a replica joins.
"""

from rekindle.recovery.active_standby import ActiveStandby
from rekindle.recovery.gap import Gap
from rekindle.recovery.passive_standby import PassiveStandby
from rekindle.recovery.policy import Policy
from rekindle.recovery.rollback import Rollback
from rekindle.recovery.upstream_backup import UpstreamBackup

__all__ = ["ActiveStandby", "Gap", "PassiveStandby", "Policy", "Rollback", "UpstreamBackup"]
