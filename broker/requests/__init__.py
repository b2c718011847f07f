"""The way of a request from its decoded form to its answer, the same for every API."""
