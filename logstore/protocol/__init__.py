"""What the log does, as steps: generators that yield requests and decide. Pure."""
