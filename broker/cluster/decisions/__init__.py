"""What the controller decides, from rows and what it remembers. Pure."""
