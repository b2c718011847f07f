"""Forms of a table's log, and values of it: names, columns, entries, a snapshot. Pure."""
