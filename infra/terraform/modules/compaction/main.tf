# Compaction by a schedule: EventBridge Scheduler runs `logstore compact --once` as a Fargate task.
# Runs exclude each other by a lease of the registry, so one that starts early does no harm.

locals {
  environment = {
    AWS_REGION   = var.region
    LOGSTORE_URL = var.url
  }

  container = {
    name                   = "compaction"
    image                  = var.image
    command                = ["logstore", "compact", "--once"]
    essential              = true
    readonlyRootFilesystem = true
    stopTimeout            = 60
    environment            = [for name in sort(keys(local.environment)) : { name = name, value = local.environment[name] }]
    mountPoints            = [{ sourceVolume = "tmp", containerPath = "/tmp", readOnly = false }]
    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = var.log_group_name
        awslogs-region        = var.region
        awslogs-stream-prefix = "compaction"
      }
    }
  }
}

resource "aws_ecs_task_definition" "this" {
  family                   = "${var.name}-compaction"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.cpu
  memory                   = var.memory_mib
  execution_role_arn       = var.execution_role_arn
  task_role_arn            = var.task_role_arn
  container_definitions    = jsonencode([local.container])
  tags                     = var.tags

  volume {
    name = "tmp"
  }
}

resource "aws_iam_role" "scheduler" {
  name = "${var.name}-scheduler"
  tags = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "scheduler.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy" "scheduler" {
  name = "run-task"
  role = aws_iam_role.scheduler.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Action    = "ecs:RunTask"
        Resource  = "${aws_ecs_task_definition.this.arn_without_revision}:*"
        Condition = { ArnEquals = { "ecs:cluster" = var.cluster_arn } }
      },
      {
        Effect    = "Allow"
        Action    = "iam:PassRole"
        Resource  = [var.execution_role_arn, var.task_role_arn]
        Condition = { StringEquals = { "iam:PassedToService" = "ecs-tasks.amazonaws.com" } }
      },
    ]
  })
}

resource "aws_scheduler_schedule" "this" {
  #checkov:skip=CKV_AWS_297:a schedule holds names and no secret
  name                = "${var.name}-compaction"
  schedule_expression = "rate(${var.every_minutes} ${var.every_minutes == 1 ? "minute" : "minutes"})"

  flexible_time_window {
    mode = "OFF"
  }

  target {
    arn      = var.cluster_arn
    role_arn = aws_iam_role.scheduler.arn

    ecs_parameters {
      task_definition_arn = aws_ecs_task_definition.this.arn
      launch_type         = "FARGATE"

      network_configuration {
        subnets          = var.subnet_ids
        security_groups  = [var.security_group_id]
        assign_public_ip = false
      }
    }

    retry_policy {
      maximum_retry_attempts = 0
    }
  }
}
