"""Alerts and dashboards for Prometheus and Grafana: `python -m tools.monitoring` writes them."""
