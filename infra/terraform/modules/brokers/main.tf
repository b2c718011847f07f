# Equal broker processes: one ECS service, on Fargate or on instances of EC2 (instances.tf). Each takes a number, an address and a zone by
# itself (--broker auto, --advertise auto, --rack auto); Cloud Map has their addresses for bootstrap.

locals {
  kafka_port = 9092
  http_port  = 9644

  # The name of a setting as the environment has it: logstore.cache.bytes is LOGSTORE_CACHE_BYTES.
  settings = {
    for name, value in var.settings :
    "LOGSTORE_${upper(replace(trimprefix(name, "logstore."), "/[.-]/", "_"))}" => value
  }

  # The listener asks for no login: the security groups say who reaches it. A value in var.settings prevails.
  environment = merge({ LOGSTORE_ALLOW_ANONYMOUS = "true" }, local.settings, {
    AWS_REGION          = var.region
    LOGSTORE_URL        = var.url
    LOGSTORE_BROKER     = "auto"
    LOGSTORE_ADVERTISE  = "auto"
    LOGSTORE_RACK       = "auto"
    LOGSTORE_LISTEN     = "0.0.0.0:${local.kafka_port}"
    LOGSTORE_HTTP       = "0.0.0.0:${local.http_port}"
    LOGSTORE_LOG_FORMAT = "json"
    LOGSTORE_STATE_DIR  = "/state"
  })

  # A deployment keeps all but one.
  healthy_percent = var.brokers > 1 ? floor(100 * (var.brokers - 1) / var.brokers) : 0

  container = {
    name                   = "broker"
    image                  = var.image
    command                = ["logstore", "serve"]
    essential              = true
    readonlyRootFilesystem = true
    stopTimeout            = 60
    environment            = [for name in sort(keys(local.environment)) : { name = name, value = local.environment[name] }]
    portMappings = [
      { containerPort = local.kafka_port, hostPort = local.kafka_port, protocol = "tcp" },
      { containerPort = local.http_port, hostPort = local.http_port, protocol = "tcp" },
    ]
    mountPoints = [
      { sourceVolume = "state", containerPath = "/state", readOnly = false },
      { sourceVolume = "tmp", containerPath = "/tmp", readOnly = false },
    ]
    ulimits = [{ name = "nofile", softLimit = 65536, hardLimit = 65536 }]
    healthCheck = {
      command     = ["CMD", "logstore", "health"]
      interval    = 10
      timeout     = 5
      retries     = 3
      startPeriod = 60
    }
    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = var.log_group_name
        awslogs-region        = var.region
        awslogs-stream-prefix = "broker"
      }
    }
  }
}

resource "aws_ecs_cluster" "this" {
  #checkov:skip=CKV_AWS_65:Container Insights costs for each task, and brokers have metrics of their own
  name = var.name
  tags = var.tags
}

# Only for ECS itself: it pulls the image and writes the log lines.
resource "aws_iam_role" "execution" {
  name = "${var.name}-execution"
  tags = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "ecs-tasks.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy" "execution" {
  name = "start"
  role = aws_iam_role.execution.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect   = "Allow"
        Action   = "ecr:GetAuthorizationToken"
        Resource = "*"
      },
      {
        Effect   = "Allow"
        Action   = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
        Resource = "arn:aws:ecr:*:*:repository/*"
      },
      {
        Effect   = "Allow"
        Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
        Resource = "arn:aws:logs:${var.region}:*:log-group:${var.log_group_name}:*"
      },
    ]
  })
}

resource "aws_ecs_task_definition" "this" {
  family                   = "${var.name}-broker"
  requires_compatibilities = [local.on_ec2 ? "EC2" : "FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.cpu
  memory                   = var.memory_mib
  execution_role_arn       = aws_iam_role.execution.arn
  task_role_arn            = var.task_role_arn
  container_definitions    = jsonencode([local.container])
  tags                     = var.tags

  volume {
    name = "state"
  }

  volume {
    name = "tmp"
  }
}

resource "aws_security_group" "this" {
  name        = "${var.name}-brokers"
  description = "Kafka clients, and brokers among each other"
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "clients" {
  for_each          = toset(var.client_cidrs)
  security_group_id = aws_security_group.this.id
  description       = "Kafka clients"
  ip_protocol       = "tcp"
  from_port         = local.kafka_port
  to_port           = local.kafka_port
  cidr_ipv4         = each.value
}

resource "aws_vpc_security_group_ingress_rule" "brokers" {
  security_group_id            = aws_security_group.this.id
  description                  = "The controller watches its brokers"
  ip_protocol                  = "tcp"
  from_port                    = local.kafka_port
  to_port                      = local.kafka_port
  referenced_security_group_id = aws_security_group.this.id
}

resource "aws_vpc_security_group_ingress_rule" "metrics" {
  for_each          = toset(var.metrics_cidrs)
  security_group_id = aws_security_group.this.id
  description       = "Metrics"
  ip_protocol       = "tcp"
  from_port         = local.http_port
  to_port           = local.http_port
  cidr_ipv4         = each.value
}

resource "aws_vpc_security_group_egress_rule" "all" {
  security_group_id = aws_security_group.this.id
  description       = "S3, DynamoDB, other brokers"
  ip_protocol       = "-1"
  cidr_ipv4         = "0.0.0.0/0"
}

resource "aws_service_discovery_private_dns_namespace" "this" {
  name = "${var.name}.internal"
  vpc  = var.vpc_id
  tags = var.tags
}

resource "aws_service_discovery_service" "brokers" {
  name = "brokers"
  tags = var.tags

  dns_config {
    namespace_id   = aws_service_discovery_private_dns_namespace.this.id
    routing_policy = "MULTIVALUE"

    dns_records {
      type = "A"
      ttl  = 10
    }
  }
}

# Where tasks run is kept by a service for its life: another compute is another service.
resource "terraform_data" "compute" {
  input = var.compute
}

resource "aws_ecs_service" "this" {
  name                          = "brokers"
  cluster                       = aws_ecs_cluster.this.id
  task_definition               = aws_ecs_task_definition.this.arn
  desired_count                 = var.brokers
  launch_type                   = local.on_ec2 ? null : "FARGATE"
  availability_zone_rebalancing = "DISABLED"
  tags                          = var.tags

  # A deployment stops one broker after the other: on Fargate after its successor has started, on an
  # instance, which has room for one, before that.
  deployment_minimum_healthy_percent = local.healthy_percent
  deployment_maximum_percent         = var.brokers > 1 && !local.on_ec2 ? ceil(100 * (var.brokers + 1) / var.brokers) : 100

  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  network_configuration {
    subnets          = var.subnet_ids
    security_groups  = [aws_security_group.this.id]
    assign_public_ip = false
  }

  service_registries {
    registry_arn = aws_service_discovery_service.brokers.arn
  }

  dynamic "capacity_provider_strategy" {
    for_each = aws_ecs_cluster_capacity_providers.this

    content {
      capacity_provider = one(capacity_provider_strategy.value.capacity_providers)
      weight            = 1
    }
  }

  dynamic "placement_constraints" {
    for_each = local.each

    content {
      type = "distinctInstance"
    }
  }

  dynamic "ordered_placement_strategy" {
    for_each = local.each

    content {
      type  = "spread"
      field = "attribute:ecs.availability-zone"
    }
  }

  dynamic "load_balancer" {
    for_each = aws_lb_listener.this

    content {
      target_group_arn = load_balancer.value.default_action[0].target_group_arn
      container_name   = local.container.name
      container_port   = local.kafka_port
    }
  }

  lifecycle {
    replace_triggered_by = [terraform_data.compute]
  }
}
