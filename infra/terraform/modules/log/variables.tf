variable "name" {
  description = "Beginning of all names but the bucket's."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,29}$", var.name))
    error_message = "name has 2 to 30 lower-case letters, digits and hyphens."
  }
}

variable "region" {
  description = "Region of everything."
  type        = string
}

variable "bucket_name" {
  description = "Name of the bucket, unique among all buckets of AWS."
  type        = string
}

variable "prefix" {
  description = "Prefix of the log in the bucket; empty: the whole bucket."
  type        = string
  default     = ""
}

variable "image" {
  description = "Image of brokers and compaction."
  type        = string
}

variable "is_protected" {
  description = "Whether bucket and table are kept from terraform destroy."
  type        = bool
}

variable "brokers" {
  description = "How many broker processes."
  type        = number
}

variable "cpu" {
  description = "CPU units of a broker."
  type        = number
  default     = 1024
}

variable "memory_mib" {
  description = "Memory of a broker."
  type        = number
  default     = 2048
}

variable "compute" {
  description = "What brokers run on: fargate, or ec2, an Auto Scaling group with an instance for each."
  type        = string
  default     = "fargate"
}

variable "instance_type" {
  description = "Type of the instances of ec2."
  type        = string
  default     = "c7i.large"
}

variable "architecture" {
  description = "Of instances and image: x86_64 or arm64."
  type        = string
  default     = "x86_64"
}

variable "ami_id" {
  description = "Image of the instances; null: the newest of AWS at each apply."
  type        = string
  default     = null
}

variable "load_balancer" {
  description = "Whether a Network Load Balancer has an address for bootstrap. It costs, and clients still connect to each broker."
  type        = bool
  default     = false
}

variable "settings" {
  description = "Settings of every broker by name, as in docs/settings.md."
  type        = map(string)
  default     = {}
}

variable "compaction_every_minutes" {
  description = "Minutes between runs of compaction; null: none, retention alone deletes."
  type        = number
  default     = null
}

variable "compaction_in" {
  description = "Where compaction runs: tasks, by a schedule, or brokers, beside the one that is the controller, which costs nothing more and shares its CPU and memory."
  type        = string
  default     = "tasks"

  validation {
    condition     = contains(["tasks", "brokers"], var.compaction_in)
    error_message = "compaction_in is tasks or brokers."
  }
}

variable "keep_deleted_days" {
  description = "Days for which deleted objects can be brought back."
  type        = number
  default     = 7
}

variable "log_days" {
  description = "Days for which log lines are kept."
  type        = number
  default     = 30
}

variable "kms_key_arn" {
  description = "Key of KMS of bucket and table; null: keys of AWS."
  type        = string
  default     = null
}

variable "zones" {
  description = "Availability zones of a new VPC."
  type        = list(string)
  default     = []
}

variable "vpc_id" {
  description = "A VPC that is there, with gateway endpoints of S3 and DynamoDB; null: a new one."
  type        = string
  default     = null
}

variable "subnet_ids" {
  description = "Its subnets for brokers."
  type        = list(string)
  default     = []
}

variable "client_cidrs" {
  description = "Addresses of Kafka clients."
  type        = list(string)
  default     = []
}

variable "metrics_cidrs" {
  description = "Addresses that may read /metrics."
  type        = list(string)
  default     = []
}

variable "admin_principals" {
  description = "ARNs that may act as the administrator."
  type        = list(string)
  default     = []
}

variable "reader_principals" {
  description = "ARNs that may read every topic."
  type        = list(string)
  default     = []
}

variable "topic_readers" {
  description = "Who may read the table of one topic, as in the module roles."
  type        = map(object({ topic_id = string, principals = list(string) }))
  default     = {}
}

variable "kubernetes" {
  description = "Pods of EKS that take the roles of brokers and compaction, as in the module roles."
  type = object({
    oidc_provider_arn = string
    namespace         = string
    service_accounts  = map(string)
  })
  default = null
}

variable "tags" {
  description = "Tags of everything."
  type        = map(string)
  default     = {}
}
