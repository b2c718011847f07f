# The bucket of one log. Nothing below the log's prefix ever expires: brokers delete what may go.

resource "aws_s3_bucket" "this" {
  #checkov:skip=CKV_AWS_18:access logs are a line for each segment, put into another bucket; data events of CloudTrail are the account's choice
  #checkov:skip=CKV_AWS_21:versions are kept by keep_deleted_days; a log to try things on has none
  #checkov:skip=CKV_AWS_144:a replica elsewhere is behind, and a log that starts on it would have lost acknowledged records
  #checkov:skip=CKV2_AWS_62:nothing waits for objects: brokers and Spark find them by the registry
  bucket        = var.name
  force_destroy = var.force_destroy
  tags          = var.tags
}

resource "aws_s3_bucket_public_access_block" "this" {
  bucket                  = aws_s3_bucket.this.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_server_side_encryption_configuration" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    # With a key of KMS, bucket keys spare one KMS request per segment.
    bucket_key_enabled = var.kms_key_arn != null

    apply_server_side_encryption_by_default {
      sse_algorithm     = var.kms_key_arn == null ? "AES256" : "aws:kms"
      kms_master_key_id = var.kms_key_arn
    }
  }
}

resource "aws_s3_bucket_versioning" "this" {
  bucket = aws_s3_bucket.this.id

  versioning_configuration {
    status = var.keep_deleted_days > 0 ? "Enabled" : "Suspended"
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "this" {
  bucket     = aws_s3_bucket.this.id
  depends_on = [aws_s3_bucket_versioning.this]

  rule {
    id     = "unfinished-uploads"
    status = "Enabled"

    filter {}

    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }

  rule {
    id     = "old-versions"
    status = "Enabled"

    filter {}

    noncurrent_version_expiration {
      noncurrent_days = max(1, var.keep_deleted_days)
    }

    expiration {
      expired_object_delete_marker = true
    }
  }
}

resource "aws_s3_bucket_policy" "this" {
  bucket     = aws_s3_bucket.this.id
  policy     = jsonencode(local.policy)
  depends_on = [aws_s3_bucket_public_access_block.this]
}

locals {
  objects = "${aws_s3_bucket.this.arn}/${var.prefix == "" ? "" : "${var.prefix}/"}"

  # Each of these is created once and never changed. tables/ is not among them: Delta's own writers,
  # such as Spark's OPTIMIZE, put data files without the header.
  created_once = ["acls/*", "chains/*", "checkpoints/*", "levels/*", "topics/*", "cluster.json"]

  policy = {
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "TlsOnly"
        Effect    = "Deny"
        Principal = "*"
        Action    = "s3:*"
        Resource  = [aws_s3_bucket.this.arn, "${aws_s3_bucket.this.arn}/*"]
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
      {
        Sid       = "CreateOnly"
        Effect    = "Deny"
        Principal = "*"
        Action    = "s3:PutObject"
        Resource  = [for key in local.created_once : "${local.objects}${key}"]
        Condition = {
          Null = { "s3:if-none-match" = "true" }
          Bool = { "s3:ObjectCreationOperation" = "true" }
        }
      },
    ]
  }
}
