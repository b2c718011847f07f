# With compute = "ec2": as many instances as brokers, in an Auto Scaling group that ECS places tasks on.
# The task is the same; a deployment stops a broker before it starts its successor in its place.

locals {
  on_ec2 = var.compute == "ec2"
  each   = local.on_ec2 ? toset(["this"]) : toset([])

  # The newest image of ECS, as AWS publishes it.
  ami_parameter = "/aws/service/ecs/optimized-ami/amazon-linux-2023${var.architecture == "arm64" ? "/arm64" : ""}/recommended/image_id"

  agent = <<-END
    #!/bin/sh
    cat > /etc/ecs/ecs.config <<'CONFIG'
    ECS_CLUSTER=${var.name}
    ECS_AWSVPC_BLOCK_IMDS=true
    ECS_ENABLE_SPOT_INSTANCE_DRAINING=true
    ECS_IMAGE_PULL_BEHAVIOR=prefer-cached
    CONFIG
  END
}

data "aws_ssm_parameter" "ami" {
  count = local.on_ec2 && var.ami_id == null ? 1 : 0
  name  = local.ami_parameter
}

# Only for the agent of ECS: tasks have a role of their own, and cannot reach this one.
resource "aws_iam_role" "instance" {
  for_each = local.each
  name     = "${var.name}-instance"
  tags     = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "ec2.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy" "instance" {
  for_each = local.each
  name     = "agent"
  role     = aws_iam_role.instance[each.key].id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect   = "Allow"
        Action   = "ecs:DiscoverPollEndpoint"
        Resource = "*"
      },
      {
        Effect = "Allow"
        Action = [
          "ecs:DeregisterContainerInstance",
          "ecs:RegisterContainerInstance",
          "ecs:SubmitAttachmentStateChanges",
          "ecs:SubmitContainerStateChange",
          "ecs:SubmitTaskStateChange",
        ]
        Resource = aws_ecs_cluster.this.arn
      },
      {
        Effect    = "Allow"
        Action    = ["ecs:Poll", "ecs:StartTelemetrySession", "ecs:UpdateContainerInstancesState"]
        Resource  = "*"
        Condition = { ArnEquals = { "ecs:cluster" = aws_ecs_cluster.this.arn } }
      },
    ]
  })
}

resource "aws_iam_instance_profile" "this" {
  for_each = local.each
  name     = "${var.name}-instance"
  role     = aws_iam_role.instance[each.key].name
  tags     = var.tags
}

resource "aws_security_group" "instances" {
  for_each    = local.each
  name        = "${var.name}-instances"
  description = "Instances of ECS: nothing connects to them; brokers have addresses of their own"
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_egress_rule" "instances" {
  for_each          = local.each
  security_group_id = aws_security_group.instances[each.key].id
  description       = "ECS, images, log lines"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
  cidr_ipv4         = "0.0.0.0/0"
}

resource "aws_launch_template" "this" {
  for_each               = local.each
  name                   = "${var.name}-brokers"
  image_id               = var.ami_id == null ? data.aws_ssm_parameter.ami[0].value : var.ami_id
  instance_type          = var.instance_type
  user_data              = base64encode(local.agent)
  update_default_version = true
  vpc_security_group_ids = [aws_security_group.instances[each.key].id]
  tags                   = var.tags

  iam_instance_profile {
    arn = aws_iam_instance_profile.this[each.key].arn
  }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  block_device_mappings {
    device_name = "/dev/xvda"

    ebs {
      encrypted             = true
      volume_type           = "gp3"
      volume_size           = 30
      delete_on_termination = true
    }
  }
}

resource "aws_autoscaling_group" "this" {
  for_each            = local.each
  name                = "${var.name}-brokers"
  min_size            = var.brokers
  max_size            = var.brokers
  desired_capacity    = var.brokers
  vpc_zone_identifier = var.subnet_ids
  health_check_type   = "EC2"

  launch_template {
    id      = aws_launch_template.this[each.key].id
    version = aws_launch_template.this[each.key].latest_version
  }

  instance_refresh {
    strategy = "Rolling"

    preferences {
      min_healthy_percentage = local.healthy_percent
    }
  }

  dynamic "tag" {
    for_each = merge(var.tags, { Name = "${var.name}-broker", AmazonECSManaged = "true" })

    content {
      key                 = tag.key
      value               = tag.value
      propagate_at_launch = true
    }
  }
}

# Draining lets a broker hand its partitions over before its instance goes.
resource "aws_ecs_capacity_provider" "this" {
  for_each = local.each
  name     = "${var.name}-instances"
  tags     = var.tags

  auto_scaling_group_provider {
    auto_scaling_group_arn         = aws_autoscaling_group.this[each.key].arn
    managed_draining               = "ENABLED"
    managed_termination_protection = "DISABLED"

    managed_scaling {
      status = "DISABLED"
    }
  }
}

resource "aws_ecs_cluster_capacity_providers" "this" {
  for_each           = local.each
  cluster_name       = aws_ecs_cluster.this.name
  capacity_providers = [aws_ecs_capacity_provider.this[each.key].name]
}
