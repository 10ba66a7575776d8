"""From a deletion request to a released model with evidence: a store, a gate, a ledger and signed receipts."""
