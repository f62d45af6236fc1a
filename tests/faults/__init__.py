"""Real processes, real signals. Each module opens with its fault model: what must be survived, what may be lost."""
