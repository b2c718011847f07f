"""Rows, requests and errors in DynamoDB's JSON, and which go together. Pure.

`items` rows and conditions, `requests` operations on rows, `errors` its error answers as ours,
`grouping` decides which calls go together, `url` says where the table is.
"""
