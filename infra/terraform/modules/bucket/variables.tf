variable "name" {
  description = "Name of the bucket, unique among all buckets of AWS."
  type        = string
}

variable "prefix" {
  description = "Prefix of the log in the bucket, without slashes at its ends; empty: the whole bucket."
  type        = string
  default     = ""

  validation {
    condition     = var.prefix == trim(var.prefix, "/")
    error_message = "prefix has no slash at its ends: logs/orders."
  }
}

variable "kms_key_arn" {
  description = "Key of KMS that encrypts the objects; null: S3's own keys, which cost nothing."
  type        = string
  default     = null
}

variable "keep_deleted_days" {
  description = "Days for which deleted objects can be brought back (logstore restore); 0: versioning is off."
  type        = number
  default     = 7

  validation {
    condition     = var.keep_deleted_days >= 0 && floor(var.keep_deleted_days) == var.keep_deleted_days
    error_message = "keep_deleted_days is a whole number from 0 up."
  }
}

variable "force_destroy" {
  description = "Whether terraform destroy may delete a bucket that holds a log."
  type        = bool
  default     = false
}

variable "tags" {
  description = "Tags of the bucket."
  type        = map(string)
  default     = {}
}
