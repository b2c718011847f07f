"""What a query's positions and batches are: decided without Spark. Pure."""
