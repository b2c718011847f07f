# With load_balancer = true: one address for bootstrap.servers, for clients that cannot ask Cloud Map's
# private zone. Clients go on by the addresses of the brokers, which they must reach all the same.

locals {
  balanced = var.load_balancer ? toset(["this"]) : toset([])
}

resource "aws_security_group" "load_balancer" {
  for_each    = local.balanced
  name        = "${var.name}-bootstrap"
  description = "Kafka clients that ask for the brokers addresses"
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "load_balancer" {
  for_each          = var.load_balancer ? toset(var.client_cidrs) : toset([])
  security_group_id = aws_security_group.load_balancer["this"].id
  description       = "Kafka clients"
  ip_protocol       = "tcp"
  from_port         = local.kafka_port
  to_port           = local.kafka_port
  cidr_ipv4         = each.value
}

resource "aws_vpc_security_group_egress_rule" "load_balancer" {
  for_each                     = local.balanced
  security_group_id            = aws_security_group.load_balancer[each.key].id
  description                  = "Brokers"
  ip_protocol                  = "tcp"
  from_port                    = local.kafka_port
  to_port                      = local.kafka_port
  referenced_security_group_id = aws_security_group.this.id
}

resource "aws_vpc_security_group_ingress_rule" "from_load_balancer" {
  for_each                     = local.balanced
  security_group_id            = aws_security_group.this.id
  description                  = "The load balancer"
  ip_protocol                  = "tcp"
  from_port                    = local.kafka_port
  to_port                      = local.kafka_port
  referenced_security_group_id = aws_security_group.load_balancer[each.key].id
}

resource "aws_lb" "this" {
  #checkov:skip=CKV_AWS_91:such a load balancer writes access logs of TLS listeners alone
  #checkov:skip=CKV_AWS_150:it holds nothing, and another is made by an apply
  for_each                         = local.balanced
  name                             = "${var.name}-bootstrap"
  internal                         = true
  load_balancer_type               = "network"
  subnets                          = var.subnet_ids
  security_groups                  = [aws_security_group.load_balancer[each.key].id]
  enable_cross_zone_load_balancing = true
  tags                             = var.tags
}

resource "aws_lb_target_group" "this" {
  for_each             = local.balanced
  name                 = "${var.name}-bootstrap"
  target_type          = "ip"
  protocol             = "TCP"
  port                 = local.kafka_port
  vpc_id               = var.vpc_id
  deregistration_delay = 60
  tags                 = var.tags

  health_check {
    protocol = "TCP"
    interval = 10
  }
}

resource "aws_lb_listener" "this" {
  for_each          = local.balanced
  load_balancer_arn = aws_lb.this[each.key].arn
  protocol          = "TCP"
  port              = local.kafka_port
  tags              = var.tags

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.this[each.key].arn
  }
}
