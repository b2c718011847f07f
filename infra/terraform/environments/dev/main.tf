# A log to try things on: one small broker in one zone, and terraform destroy takes the records too.

provider "aws" {
  region = var.region

  default_tags {
    tags = { logstore = "dev" }
  }
}

module "log" {
  source            = "../../modules/log"
  name              = "logstore-dev"
  region            = var.region
  bucket_name       = var.bucket_name
  image             = var.image
  is_protected      = false
  brokers           = 1
  cpu               = 512
  memory_mib        = 2048
  keep_deleted_days = 0
  log_days          = 7
  zones             = slice(var.zones, 0, 1)
  client_cidrs      = var.client_cidrs
  admin_principals  = var.admin_principals
  reader_principals = var.reader_principals
}
