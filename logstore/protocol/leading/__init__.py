"""Brokers as steps: started, replaced, removed; who leads, who acts, at which level."""
