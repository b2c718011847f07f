"""The registry in one DynamoDB table; `rows` puts its parts together.

client      `client` makes one attempt per call, with credentials and time-outs; `table` makes the
            table
grouping    `call_queue` holds calls that wait, `grouped_calls` sends a group and answers each call

What is sent and which calls go together: `logstore.registry.dynamodb_json`.
"""
