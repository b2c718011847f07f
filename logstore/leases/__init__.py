"""Leases: who is alive and who acts. They give liveness, never safety."""
