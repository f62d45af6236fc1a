"""How large the demonstration is, in one place for the pipeline file, which reads it from the environment, and
for the oracle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PIPELINE_FILE = Path(__file__).with_name("fraud.py")


@dataclass(frozen=True, slots=True)
class Scale:
    payments_per_s: int = 1000
    logins_per_s: int = 300
    seconds: int = 60
    accounts: int = 200

    def environment(self, out: Path) -> dict[str, str]:
        """What ``fraud.py`` reads."""
        return {
            "FRAUD_PAYMENTS_PER_S": str(self.payments_per_s),
            "FRAUD_LOGINS_PER_S": str(self.logins_per_s),
            "FRAUD_SECONDS": str(self.seconds),
            "FRAUD_ACCOUNTS": str(self.accounts),
            "FRAUD_OUT": str(out),
        }
