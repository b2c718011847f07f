"""Version of this logstore, as rows of brokers and log lines say it; pyproject's is equal."""

VERSION = "0.2.0.dev0"
