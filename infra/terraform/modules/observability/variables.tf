variable "name" {
  description = "Beginning of the names."
  type        = string
}

variable "log_days" {
  description = "Days for which log lines are kept."
  type        = number
  default     = 30
}

variable "table_name" {
  description = "Table of the registry."
  type        = string
}

variable "cluster_name" {
  description = "Name of the ECS cluster."
  type        = string
}

variable "service_name" {
  description = "Name of the ECS service of the brokers."
  type        = string
}

variable "tags" {
  description = "Tags of everything."
  type        = map(string)
  default     = {}
}
