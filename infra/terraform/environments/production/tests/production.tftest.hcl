# Both commands run against a provider that makes nothing: what is planned, and what is refused.

mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { name = "eu-west-1" }
  }
  mock_resource "aws_s3_bucket" {
    defaults = { arn = "arn:aws:s3:::orders", id = "orders" }
  }
  mock_resource "aws_dynamodb_table" {
    defaults = { arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/registry" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/mock" }
  }
  mock_resource "aws_ecs_cluster" {
    defaults = { arn = "arn:aws:ecs:eu-west-1:123456789012:cluster/mock" }
  }
  mock_resource "aws_ecs_task_definition" {
    defaults = {
      arn                  = "arn:aws:ecs:eu-west-1:123456789012:task-definition/mock:1"
      arn_without_revision = "arn:aws:ecs:eu-west-1:123456789012:task-definition/mock"
    }
  }
  mock_resource "aws_service_discovery_service" {
    defaults = { arn = "arn:aws:servicediscovery:eu-west-1:123456789012:service/mock" }
  }
  mock_data "aws_ssm_parameter" {
    defaults = { value = "ami-0123456789abcdef0" }
  }
  mock_resource "aws_launch_template" {
    defaults = { id = "lt-0123456789abcdef0", latest_version = 1 }
  }
  mock_resource "aws_iam_instance_profile" {
    defaults = { arn = "arn:aws:iam::123456789012:instance-profile/mock" }
  }
  mock_resource "aws_autoscaling_group" {
    defaults = { arn = "arn:aws:autoscaling:eu-west-1:123456789012:autoScalingGroup:1:autoScalingGroupName/mock" }
  }
  mock_resource "aws_lb" {
    defaults = {
      arn      = "arn:aws:elasticloadbalancing:eu-west-1:123456789012:loadbalancer/net/mock/1"
      dns_name = "mock.elb.eu-west-1.amazonaws.com"
    }
  }
  mock_resource "aws_lb_target_group" {
    defaults = { arn = "arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/mock/1" }
  }
  mock_resource "aws_lb_listener" {
    defaults = { arn = "arn:aws:elasticloadbalancing:eu-west-1:123456789012:listener/net/mock/1/1" }
  }
  mock_resource "aws_sns_topic" {
    defaults = { arn = "arn:aws:sns:eu-west-1:123456789012:mock" }
  }
}

variables {
  region           = "eu-west-1"
  bucket_name      = "orders"
  image            = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/logstore:0.1.0"
  zones            = ["eu-west-1a", "eu-west-1b", "eu-west-1c"]
  admin_principals = ["arn:aws:iam::123456789012:role/platform"]
}

run "outputs_are_what_people_paste" {
  command = apply

  assert {
    condition     = output.url == "s3://orders"
    error_message = "url: ${output.url}"
  }
  assert {
    condition     = output.init == "logstore init --url s3://orders --registry dynamodb://logstore-production-registry"
    error_message = "init: ${output.init}"
  }
  assert {
    condition     = output.bootstrap == "brokers.logstore-production.internal:9092"
    error_message = "bootstrap: ${output.bootstrap}"
  }
  assert {
    condition     = jsonencode(keys(output.role_arns)) == jsonencode(["admin"])
    error_message = "a role without principals was made"
  }
}

run "the_bucket_takes_tls_alone_and_creates_each_object_once" {
  command = apply
  module {
    source = "../../modules/bucket"
  }
  variables {
    name   = "orders"
    prefix = "logs/orders"
  }

  assert {
    condition     = output.url == "s3://orders/logs/orders"
    error_message = "url: ${output.url}"
  }
  assert {
    condition = jsonencode(jsondecode(aws_s3_bucket_policy.this.policy).Statement[1].Resource) == jsonencode([
      "arn:aws:s3:::orders/logs/orders/acls/*",
      "arn:aws:s3:::orders/logs/orders/chains/*",
      "arn:aws:s3:::orders/logs/orders/checkpoints/*",
      "arn:aws:s3:::orders/logs/orders/levels/*",
      "arn:aws:s3:::orders/logs/orders/topics/*",
      "arn:aws:s3:::orders/logs/orders/cluster.json",
    ])
    error_message = "which keys are created once: ${aws_s3_bucket_policy.this.policy}"
  }
  assert {
    condition = alltrue([
      for statement in jsondecode(aws_s3_bucket_policy.this.policy).Statement : statement.Effect == "Deny"
    ])
    error_message = "the bucket's policy grants something"
  }
  assert {
    condition     = alltrue([for rule in aws_s3_bucket_lifecycle_configuration.this.rule : alltrue([for one in rule.expiration : one.days == null || one.days == 0])])
    error_message = "objects of the log expire"
  }
  assert {
    condition     = aws_s3_bucket.this.force_destroy == false
    error_message = "destroy deletes records"
  }
}

run "readers_only_read_and_a_reader_of_a_topic_reads_its_table" {
  command = apply
  module {
    source = "../../modules/roles"
  }
  variables {
    name              = "orders"
    bucket_arn        = "arn:aws:s3:::orders"
    prefix            = "logs/orders"
    table_arn         = "arn:aws:dynamodb:eu-west-1:123456789012:table/registry"
    reader_principals = ["arn:aws:iam::123456789012:role/spark"]
    topic_readers = {
      billing = { topic_id = "0123456789abcdef0123456789abcdef", principals = ["arn:aws:iam::123456789012:role/billing"] }
    }
  }

  assert {
    condition = jsonencode(sort(distinct(flatten([
      for statement in jsondecode(aws_iam_role_policy.person["reader"].policy).Statement : statement.Action
    ])))) == jsonencode(["dynamodb:GetItem", "dynamodb:Query", "s3:GetObject", "s3:ListBucket"])
    error_message = "reader: ${aws_iam_role_policy.person["reader"].policy}"
  }
  assert {
    condition = jsonencode(jsondecode(aws_iam_role_policy.topic_reader["billing"].policy).Statement[0].Resource) == jsonencode([
      "arn:aws:s3:::orders/logs/orders/tables/0123456789abcdef0123456789abcdef/*"
    ])
    error_message = "topic reader: ${aws_iam_role_policy.topic_reader["billing"].policy}"
  }
  assert {
    condition = alltrue([
      for role in ["broker", "compactor"] : alltrue([
        for statement in jsondecode(aws_iam_role_policy.task[role].policy).Statement :
        !contains(flatten([statement.Resource]), "*")
      ])
    ])
    error_message = "a role of a task reaches beyond its log"
  }
}

run "pods_of_a_service_account_take_the_roles_of_processes" {
  command = apply
  module {
    source = "../../modules/roles"
  }
  variables {
    name       = "orders"
    bucket_arn = "arn:aws:s3:::orders"
    table_arn  = "arn:aws:dynamodb:eu-west-1:123456789012:table/registry"
    kubernetes = {
      oidc_provider_arn = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/ABC"
      namespace         = "kafka"
      service_accounts  = { broker = "orders-logstore", compactor = "orders-logstore-compaction" }
    }
  }

  assert {
    condition = jsondecode(aws_iam_role.task["broker"].assume_role_policy).Statement[1].Condition == {
      StringEquals = {
        "oidc.eks.eu-west-1.amazonaws.com/id/ABC:sub" = "system:serviceaccount:kafka:orders-logstore"
      }
    }
    error_message = "trust: ${aws_iam_role.task["broker"].assume_role_policy}"
  }
}

run "service_accounts_of_one_role_alone_are_refused" {
  command = plan
  module {
    source = "../../modules/roles"
  }
  variables {
    name       = "orders"
    bucket_arn = "arn:aws:s3:::orders"
    table_arn  = "arn:aws:dynamodb:eu-west-1:123456789012:table/registry"
    kubernetes = {
      oidc_provider_arn = "arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/ABC"
      namespace         = "kafka"
      service_accounts  = { broker = "orders-logstore" }
    }
  }
  expect_failures = [var.kubernetes]
}

run "a_deployment_keeps_all_brokers_but_one_and_settings_are_variables" {
  command = apply
  module {
    source = "../../modules/brokers"
  }
  variables {
    name           = "orders"
    url            = "s3://orders"
    brokers        = 3
    task_role_arn  = "arn:aws:iam::123456789012:role/broker"
    log_group_name = "/logstore/orders"
    vpc_id         = "vpc-1"
    subnet_ids     = ["subnet-1"]
    settings       = { "logstore.cache.bytes" = "1", "num.partitions" = "2" }
  }

  assert {
    condition     = aws_ecs_service.this.deployment_minimum_healthy_percent == 66
    error_message = "a deployment stops more than one of three brokers"
  }
  assert {
    condition = length(setsubtract(
      ["LOGSTORE_CACHE_BYTES=1", "LOGSTORE_NUM_PARTITIONS=2", "LOGSTORE_BROKER=auto", "LOGSTORE_URL=s3://orders"],
      [for one in local.container.environment : "${one.name}=${one.value}"],
    )) == 0
    error_message = "environment of a broker"
  }
}

run "fargate_and_no_load_balancer_unless_they_are_asked_for" {
  command = apply
  module {
    source = "../../modules/log"
  }
  variables {
    name         = "orders"
    brokers      = 3
    is_protected = false
  }

  assert {
    condition     = length(module.brokers.instance_group_names) == 0 && output.load_balancer_bootstrap == null
    error_message = "instances or a load balancer without being asked"
  }
}

run "on_instances_a_broker_has_one_of_its_own_and_ends_before_its_successor" {
  command = apply
  module {
    source = "../../modules/brokers"
  }
  variables {
    name           = "orders"
    url            = "s3://orders"
    brokers        = 3
    compute        = "ec2"
    architecture   = "arm64"
    instance_type  = "c7g.large"
    task_role_arn  = "arn:aws:iam::123456789012:role/broker"
    log_group_name = "/logstore/orders"
    vpc_id         = "vpc-1"
    subnet_ids     = ["subnet-1", "subnet-2"]
  }

  assert {
    condition     = aws_autoscaling_group.this["this"].desired_capacity == 3 && one(aws_ecs_service.this.placement_constraints).type == "distinctInstance"
    error_message = "not an instance for each broker"
  }
  assert {
    condition     = aws_ecs_service.this.deployment_minimum_healthy_percent == 66 && aws_ecs_service.this.deployment_maximum_percent == 100
    error_message = "a deployment wants an instance that is not there"
  }
  assert {
    condition     = aws_ecs_task_definition.this.requires_compatibilities == toset(["EC2"]) && aws_ecs_service.this.launch_type != "FARGATE"
    error_message = "a task of Fargate"
  }
  assert {
    condition     = aws_launch_template.this["this"].metadata_options[0].http_tokens == "required" && strcontains(base64decode(aws_launch_template.this["this"].user_data), "ECS_CLUSTER=orders")
    error_message = "launch template"
  }
  assert {
    condition     = data.aws_ssm_parameter.ami[0].name == "/aws/service/ecs/optimized-ami/amazon-linux-2023/arm64/recommended/image_id"
    error_message = "image: ${data.aws_ssm_parameter.ami[0].name}"
  }
}

run "a_load_balancer_is_for_bootstrap_alone" {
  command = apply
  module {
    source = "../../modules/brokers"
  }
  variables {
    name           = "orders"
    url            = "s3://orders"
    brokers        = 3
    load_balancer  = true
    task_role_arn  = "arn:aws:iam::123456789012:role/broker"
    log_group_name = "/logstore/orders"
    vpc_id         = "vpc-1"
    subnet_ids     = ["subnet-1", "subnet-2"]
    client_cidrs   = ["10.0.0.0/16"]
  }

  assert {
    condition     = output.load_balancer_bootstrap == "mock.elb.eu-west-1.amazonaws.com:9092" && output.environment["LOGSTORE_ADVERTISE"] == "auto"
    error_message = "brokers name the load balancer as their address"
  }
  assert {
    condition     = aws_lb.this["this"].internal && one(aws_ecs_service.this.load_balancer).container_port == 9092
    error_message = "load balancer"
  }
  assert {
    condition     = [for rule in aws_vpc_security_group_ingress_rule.load_balancer : rule.cidr_ipv4] == ["10.0.0.0/16"]
    error_message = "clients of the load balancer"
  }
}

run "another_compute_is_refused" {
  command = plan
  module {
    source = "../../modules/brokers"
  }
  variables {
    name           = "orders"
    url            = "s3://orders"
    compute        = "lambda"
    task_role_arn  = "arn:aws:iam::123456789012:role/broker"
    log_group_name = "/logstore/orders"
    vpc_id         = "vpc-1"
    subnet_ids     = ["subnet-1"]
  }
  expect_failures = [var.compute]
}

run "brokers_do_not_write_tables" {
  command = apply
  module {
    source = "../../modules/log"
  }
  variables {
    name                     = "orders"
    brokers                  = 3
    is_protected             = false
    compaction_every_minutes = 10
  }

  assert {
    condition = anytrue([
      for statement in jsondecode(module.roles.task_policies["broker"]).Statement :
      statement.Effect == "Deny" && statement.Action == ["s3:PutObject"] && statement.Resource == ["arn:aws:s3:::orders/tables/*"]
    ])
    error_message = "broker: ${module.roles.task_policies["broker"]}"
  }
  assert {
    condition     = length(module.compaction) == 1 && !can(module.brokers.environment["LOGSTORE_COMPACTION_EVERY"])
    error_message = "compaction is not a task by schedule"
  }
}

run "brokers_that_compact_have_the_rights_of_compaction_and_no_task_is_scheduled" {
  command = apply
  module {
    source = "../../modules/log"
  }
  variables {
    name                     = "orders"
    brokers                  = 3
    is_protected             = false
    compaction_every_minutes = 5
    compaction_in            = "brokers"
  }

  assert {
    condition     = module.brokers.environment["LOGSTORE_COMPACTION_EVERY"] == "5m" && length(module.compaction) == 0
    error_message = "compaction does not run beside brokers alone"
  }
  assert {
    condition = alltrue([
      for statement in jsondecode(module.roles.task_policies["broker"]).Statement : statement.Effect == "Allow"
    ])
    error_message = "broker: ${module.roles.task_policies["broker"]}"
  }
  assert {
    condition = length(setsubtract(
      flatten([for statement in jsondecode(module.roles.task_policies["compactor"]).Statement : statement.Action]),
      flatten([for statement in jsondecode(module.roles.task_policies["broker"]).Statement : statement.Action]),
    )) == 0
    error_message = "broker: ${module.roles.task_policies["broker"]}"
  }
}

run "the_setting_alone_gives_brokers_the_rights_of_compaction" {
  command = apply
  module {
    source = "../../modules/log"
  }
  variables {
    name         = "orders"
    brokers      = 3
    is_protected = false
    settings     = { "logstore.compaction.every" = "1m" }
  }

  assert {
    condition = alltrue([
      for statement in jsondecode(module.roles.task_policies["broker"]).Statement : statement.Effect == "Allow"
    ])
    error_message = "broker: ${module.roles.task_policies["broker"]}"
  }
}

run "compaction_elsewhere_is_refused" {
  command = plan
  module {
    source = "../../modules/log"
  }
  variables {
    name          = "orders"
    brokers       = 3
    is_protected  = false
    compaction_in = "emr"
  }
  expect_failures = [var.compaction_in]
}

run "an_image_that_is_not_named_is_refused" {
  command = plan
  module {
    source = "../../modules/brokers"
  }
  variables {
    name           = "orders"
    url            = "s3://orders"
    image          = ""
    task_role_arn  = "arn:aws:iam::123456789012:role/broker"
    log_group_name = "/logstore/orders"
    vpc_id         = "vpc-1"
    subnet_ids     = ["subnet-1"]
  }
  expect_failures = [var.image]
}
