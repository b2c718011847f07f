# One role for each kind of process. actions.json has what each may do; the project's tests hold it
# to the requests that the processes make. Brokers that compact have the compactor's rights too.

locals {
  listed = jsondecode(file("${path.module}/actions.json"))
  below  = var.prefix == "" ? "" : "${var.prefix}/"

  actions = merge(local.listed, {
    broker = {
      for kind, own in local.listed.broker :
      kind => distinct(concat(own, var.brokers_compact ? local.listed.compactor[kind] : []))
    }
  })

  task_roles = toset(["broker", "compactor"])
  person_roles = {
    for role, principals in { admin = var.admin_principals, reader = var.reader_principals } :
    role => principals if length(principals) > 0
  }

  # Tasks of ECS, and pods of the service account of the same name (IRSA).
  task_trust = {
    for role in local.task_roles : role => {
      Version = "2012-10-17"
      Statement = concat(
        [{
          Effect    = "Allow"
          Principal = { Service = "ecs-tasks.amazonaws.com" }
          Action    = "sts:AssumeRole"
        }],
        [
          for cluster in var.kubernetes[*] : {
            Effect    = "Allow"
            Principal = { Federated = cluster.oidc_provider_arn }
            Action    = "sts:AssumeRoleWithWebIdentity"
            Condition = {
              StringEquals = {
                for issuer in [split("oidc-provider/", cluster.oidc_provider_arn)[1]] :
                "${issuer}:sub" => "system:serviceaccount:${cluster.namespace}:${cluster.service_accounts[role]}"
              }
            }
          }
        ],
      )
    }
  }

  # Everything below the log's prefix, and the whole registry.
  log_policies = {
    for role in ["admin", "broker", "compactor", "reader"] : role => {
      Version = "2012-10-17"
      Statement = concat(
        [
          {
            Sid      = "Objects"
            Effect   = "Allow"
            Action   = local.actions[role].objects
            Resource = ["${var.bucket_arn}/${local.below}*"]
          },
          merge(
            {
              Sid      = "Keys"
              Effect   = "Allow"
              Action   = ["s3:ListBucket"]
              Resource = [var.bucket_arn]
            },
            local.below == "" ? {} : {
              Condition = { StringLike = { "s3:prefix" = ["${local.below}*"] } }
            },
          ),
          {
            Sid      = "Registry"
            Effect   = "Allow"
            Action   = local.actions[role].table
            Resource = [var.table_arn]
          },
        ],
        [
          for more in [setsubtract(local.actions[role].bucket, ["s3:ListBucket"])] : {
            Sid      = "Bucket"
            Effect   = "Allow"
            Action   = sort(more)
            Resource = [var.bucket_arn]
          } if length(more) > 0
        ],
        [
          for tables in ["${var.bucket_arn}/${local.below}tables/*"] : {
            Sid      = "TablesAreOfCompaction"
            Effect   = "Deny"
            Action   = ["s3:PutObject"]
            Resource = [tables]
          } if role == "broker" && !var.brokers_compact
        ],
        # Rows by which passwords could be guessed, or brokers be imitated.
        [
          for keys in [["secret", "user"]] : {
            Sid       = "UsersAreOfBrokers"
            Effect    = "Deny"
            Action    = local.actions[role].table
            Resource  = [var.table_arn]
            Condition = { "ForAnyValue:StringEquals" = { "dynamodb:LeadingKeys" = keys } }
          } if contains(["compactor", "reader"], role)
        ],
        [
          for key in var.kms_key_arns : {
            Sid      = "Key${index(var.kms_key_arns, key)}"
            Effect   = "Allow"
            Action   = role == "reader" ? ["kms:Decrypt"] : ["kms:Decrypt", "kms:GenerateDataKey"]
            Resource = [key]
          }
        ],
      )
    }
  }
}

resource "aws_iam_role" "task" {
  for_each           = local.task_roles
  name               = "${var.name}-${each.key}"
  assume_role_policy = jsonencode(local.task_trust[each.key])
  tags               = var.tags
}

resource "aws_iam_role_policy" "task" {
  for_each = local.task_roles
  name     = "log"
  role     = aws_iam_role.task[each.key].id
  policy   = jsonencode(local.log_policies[each.key])
}

resource "aws_iam_role" "person" {
  for_each = local.person_roles
  name     = "${var.name}-${each.key}"
  tags     = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { AWS = each.value }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy" "person" {
  for_each = local.person_roles
  name     = "log"
  role     = aws_iam_role.person[each.key].id
  policy   = jsonencode(local.log_policies[each.key])
}

# A reader of one topic reads its Delta table: segments hold records of all topics.
resource "aws_iam_role" "topic_reader" {
  for_each = var.topic_readers
  name     = "${var.name}-topic-${each.key}"
  tags     = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { AWS = each.value.principals }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy" "topic_reader" {
  for_each = var.topic_readers
  name     = "table"
  role     = aws_iam_role.topic_reader[each.key].id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid      = "Objects"
        Effect   = "Allow"
        Action   = local.actions.topic_reader.objects
        Resource = ["${var.bucket_arn}/${local.below}tables/${each.value.topic_id}/*"]
      },
      {
        Sid       = "Keys"
        Effect    = "Allow"
        Action    = local.actions.topic_reader.bucket
        Resource  = [var.bucket_arn]
        Condition = { StringLike = { "s3:prefix" = ["${local.below}tables/${each.value.topic_id}/*"] } }
      },
    ]
  })
}
