"""One list of raw requests, sent to Apache Kafka and to a broker of ours, compared by field."""
