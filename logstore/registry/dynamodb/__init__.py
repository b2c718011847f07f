"""The registry in one DynamoDB table, in three parts; `rows` puts them together.

client      `client` makes one attempt per call, with credentials and time-outs; `url` says where
            the table is, `table` makes it
requests    `items` rows and conditions in DynamoDB's JSON, `requests` operations on rows, `errors`
            its error answers as ours: pure
grouping    `grouping` decides which calls go together (pure); `call_queue` holds those that wait,
            `grouped_calls` sends a group and answers each call
"""
