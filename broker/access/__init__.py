"""Logins of connections, users and rules as this broker knows them."""
