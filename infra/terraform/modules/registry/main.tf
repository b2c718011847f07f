# The table of one log's registry. Its keys come from the file that `logstore init` reads too. No
# TTL: a row that went by itself would be a lost row.

locals {
  keys = jsondecode(file("${path.module}/../../../../logstore/registry/dynamodb/key_spec.json"))
}

resource "aws_dynamodb_table" "this" {
  #checkov:skip=CKV_AWS_119:a key of KMS by kms_key_arn; without one DynamoDB encrypts by a key of its own
  name                        = var.name
  billing_mode                = local.keys.billing_mode
  hash_key                    = local.keys.hash_key.name
  range_key                   = local.keys.range_key.name
  deletion_protection_enabled = var.deletion_protection
  tags                        = var.tags

  attribute {
    name = local.keys.hash_key.name
    type = local.keys.hash_key.type
  }

  attribute {
    name = local.keys.range_key.name
    type = local.keys.range_key.type
  }

  point_in_time_recovery {
    enabled = true
  }

  server_side_encryption {
    enabled     = var.kms_key_arn != null
    kms_key_arn = var.kms_key_arn
  }
}
