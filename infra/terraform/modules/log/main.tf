# One log with everything that it needs: what the environments are made of.

module "bucket" {
  source            = "../bucket"
  name              = var.bucket_name
  prefix            = var.prefix
  kms_key_arn       = var.kms_key_arn
  keep_deleted_days = var.keep_deleted_days
  force_destroy     = !var.is_protected
  tags              = var.tags
}

module "registry" {
  source              = "../registry"
  name                = "${var.name}-registry"
  kms_key_arn         = var.kms_key_arn
  deletion_protection = var.is_protected
  tags                = var.tags
}

locals {
  compacts_in = var.compaction_every_minutes == null ? "" : var.compaction_in
  settings = merge(
    local.compacts_in == "brokers" ? { "logstore.compaction.every" = "${var.compaction_every_minutes}m" } : {},
    var.settings,
  )
  brokers_compact = anytrue([
    for name, value in local.settings :
    trimprefix(name, "logstore.") == "compaction.every" && trimspace(value) != "off"
  ])
}

module "roles" {
  source            = "../roles"
  name              = var.name
  bucket_arn        = module.bucket.arn
  prefix            = var.prefix
  table_arn         = module.registry.arn
  kms_key_arns      = var.kms_key_arn == null ? [] : [var.kms_key_arn]
  brokers_compact   = local.brokers_compact
  admin_principals  = var.admin_principals
  reader_principals = var.reader_principals
  topic_readers     = var.topic_readers
  kubernetes        = var.kubernetes
  tags              = var.tags
}

module "network" {
  source = "../network"
  count  = var.vpc_id == null ? 1 : 0
  name   = var.name
  zones  = var.zones
  tags   = var.tags

  # The agent of ECS on instances asks for three more.
  interface_endpoints = concat(
    ["ecr.api", "ecr.dkr", "logs"],
    var.compute == "ec2" ? ["ecs", "ecs-agent", "ecs-telemetry"] : [],
  )
}

locals {
  vpc_id     = var.vpc_id == null ? module.network[0].vpc_id : var.vpc_id
  subnet_ids = var.vpc_id == null ? module.network[0].subnet_ids : var.subnet_ids
}

module "observability" {
  source       = "../observability"
  name         = var.name
  log_days     = var.log_days
  table_name   = module.registry.name
  cluster_name = module.brokers.cluster_name
  service_name = module.brokers.service_name
  tags         = var.tags
}

module "brokers" {
  source         = "../brokers"
  name           = var.name
  region         = var.region
  url            = module.bucket.url
  image          = var.image
  brokers        = var.brokers
  cpu            = var.cpu
  memory_mib     = var.memory_mib
  compute        = var.compute
  instance_type  = var.instance_type
  architecture   = var.architecture
  ami_id         = var.ami_id
  load_balancer  = var.load_balancer
  settings       = local.settings
  task_role_arn  = module.roles.task_role_arns["broker"]
  log_group_name = module.observability.log_group_name
  vpc_id         = local.vpc_id
  subnet_ids     = local.subnet_ids
  client_cidrs   = var.client_cidrs
  metrics_cidrs  = var.metrics_cidrs
  tags           = var.tags
}

module "compaction" {
  source             = "../compaction"
  count              = local.compacts_in == "tasks" ? 1 : 0
  name               = var.name
  region             = var.region
  url                = module.bucket.url
  image              = var.image
  every_minutes      = var.compaction_every_minutes
  cluster_arn        = module.brokers.cluster_arn
  execution_role_arn = module.brokers.execution_role_arn
  task_role_arn      = module.roles.task_role_arns["compactor"]
  log_group_name     = module.observability.log_group_name
  subnet_ids         = local.subnet_ids
  security_group_id  = module.brokers.security_group_id
  tags               = var.tags
}
