"""What a fleet's history adds up to: failures, rates, times, and nodes that fail again and again."""
