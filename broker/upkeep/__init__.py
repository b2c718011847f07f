"""Work that a broker does by itself: retention, trimming, watching its store."""
