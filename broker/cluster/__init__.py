"""The brokers as one cluster: placement, the controller's decisions, and who carries them out."""
