"""Stores and registries by the URL that names them."""
