"""AWS's prices of requests, rows and bytes: the one price list, and sums on it.

List prices of us-east-1 in US dollars, without free tier, discounts or taxes, as of November 2026:
S3 Standard (https://aws.amazon.com/s3/pricing/) and DynamoDB on demand
(https://aws.amazon.com/dynamodb/pricing/on-demand/). S3 charges for refused and missing requests
like for others (a 412, a 404), and nothing for DELETE or for its own 5xx answers.
"""

from dataclasses import dataclass

GIGABYTE = 2**30  # S3 bills storage in binary gigabytes

# S3 Standard, requests
CREATE_DOLLARS = 0.005 / 1000  # PUT
LIST_DOLLARS = 0.005 / 1000  # per page of up to 1000 keys
GET_DOLLARS = 0.0004 / 1000  # GET and HEAD, whole or ranged
DELETE_DOLLARS = 0.0

# S3 Standard, storage: the first 50 TB of a month
STORED_GIGABYTE_MONTH_DOLLARS = 0.023

# DynamoDB on demand; a write in a transaction costs twice
ROW_WRITE_DOLLARS = 0.625 / 1_000_000  # per started KiB, also if a condition failed
ROW_READ_DOLLARS = 0.125 / 1_000_000  # per started 4 KiB, strongly consistent


@dataclass(frozen=True, slots=True)
class Requests:
    """How often the object store was asked."""

    creates: int = 0
    gets: int = 0
    lists: int = 0
    deletes: int = 0


@dataclass(frozen=True, slots=True)
class RowUnits:
    """Registry traffic in DynamoDB's units."""

    writes: int = 0
    reads: int = 0


def cost_of(counts: Requests) -> float:
    """Dollars for the requests; the bytes they move inside a region are free."""
    return (
        counts.creates * CREATE_DOLLARS
        + counts.gets * GET_DOLLARS
        + counts.lists * LIST_DOLLARS
        + counts.deletes * DELETE_DOLLARS
    )


def cost_of_rows(units: RowUnits) -> float:
    return units.writes * ROW_WRITE_DOLLARS + units.reads * ROW_READ_DOLLARS


def cost_of_storage(stored_bytes: float, months: float) -> float:
    """Dollars for keeping `stored_bytes` for `months`, which may be a fraction."""
    return stored_bytes / GIGABYTE * months * STORED_GIGABYTE_MONTH_DOLLARS


def write_units(row_bytes: int) -> int:
    return max(1, -(-row_bytes // 1024))


def read_units(row_bytes: int) -> int:
    return max(1, -(-row_bytes // 4096))
