"""Rules on values, without a step: what may go, who is alive, what a chain's bytes must say."""
