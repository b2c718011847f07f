variable "name" {
  description = "Beginning of the names of the roles."
  type        = string
}

variable "bucket_arn" {
  description = "ARN of the log's bucket."
  type        = string
}

variable "prefix" {
  description = "Prefix of the log in the bucket, as in the module bucket."
  type        = string
  default     = ""
}

variable "table_arn" {
  description = "ARN of the registry's table."
  type        = string
}

variable "kms_key_arns" {
  description = "Keys of KMS that encrypt bucket and table."
  type        = list(string)
  default     = []
}

variable "brokers_compact" {
  description = "Whether compaction runs beside brokers (logstore.compaction.every): they write tables then."
  type        = bool
  default     = false
}

variable "admin_principals" {
  description = "ARNs that may act as the administrator (logstore init, probe, fsck, gc, restore); none: no such role."
  type        = list(string)
  default     = []
}

variable "reader_principals" {
  description = "ARNs that may read every topic (Spark jobs, logstore inspect); none: no such role."
  type        = list(string)
  default     = []
}

variable "topic_readers" {
  description = "By a name of its own: who may read the table of one topic, and the topic's id (logstore topics describe)."
  type = map(object({
    topic_id   = string
    principals = list(string)
  }))
  default = {}

  validation {
    condition     = alltrue([for one in var.topic_readers : can(regex("^[0-9a-f]{32}$", one.topic_id))])
    error_message = "topic_id is 32 hex digits: logstore topics describe prints it."
  }
}

variable "kubernetes" {
  description = "Pods of EKS that take the roles broker and compactor: the cluster's OIDC provider, and namespace and service accounts of the Helm chart."
  type = object({
    oidc_provider_arn = string
    namespace         = string
    service_accounts  = map(string)
  })
  default = null

  validation {
    condition = var.kubernetes == null ? true : (
      can(regex("^arn:[a-z-]+:iam::[0-9]{12}:oidc-provider/.+", var.kubernetes.oidc_provider_arn)) &&
      length(setsubtract(["broker", "compactor"], keys(var.kubernetes.service_accounts))) == 0
    )
    error_message = "kubernetes has the ARN of an OIDC provider of IAM, and service_accounts for broker and compactor."
  }
}

variable "tags" {
  description = "Tags of the roles."
  type        = map(string)
  default     = {}
}
