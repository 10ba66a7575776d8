"""Five classes forgotten one after the other: `unsc bench sequences`."""
