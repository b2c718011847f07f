"""The controller's decisions, from rows and its own state. Pure."""
