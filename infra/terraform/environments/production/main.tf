# A log to keep: three brokers over the zones, compaction, and nothing that destroys records.

provider "aws" {
  region = var.region

  default_tags {
    tags = { logstore = "production" }
  }
}

module "log" {
  source                   = "../../modules/log"
  name                     = "logstore-production"
  region                   = var.region
  bucket_name              = var.bucket_name
  image                    = var.image
  is_protected             = true
  brokers                  = 3
  compaction_every_minutes = 10
  zones                    = var.zones
  client_cidrs             = var.client_cidrs
  admin_principals         = var.admin_principals
  reader_principals        = var.reader_principals

  settings = {
    "default.replication.factor" = "3"
  }
}
