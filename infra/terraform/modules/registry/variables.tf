variable "name" {
  description = "Name of the table."
  type        = string
}

variable "deletion_protection" {
  description = "Whether AWS refuses to delete the table."
  type        = bool
  default     = true
}

variable "kms_key_arn" {
  description = "Key of KMS that encrypts the table; null: DynamoDB's own key, which costs nothing."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of the table."
  type        = map(string)
  default     = {}
}
