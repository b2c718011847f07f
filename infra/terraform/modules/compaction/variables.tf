variable "name" {
  description = "Beginning of the names."
  type        = string
}

variable "region" {
  description = "Region of everything."
  type        = string
}

variable "url" {
  description = "The log: output url of the module bucket."
  type        = string
}

variable "image" {
  description = "Image of the target broker of the Dockerfile."
  type        = string
}

variable "every_minutes" {
  description = "Minutes between runs. Lower: tables are fresher, and more tasks are paid for, each for a minute at least."
  type        = number
  default     = 10

  validation {
    condition     = var.every_minutes >= 1 && floor(var.every_minutes) == var.every_minutes
    error_message = "every_minutes is a whole number from 1 up."
  }
}

variable "cpu" {
  description = "CPU units of a run."
  type        = number
  default     = 1024
}

variable "memory_mib" {
  description = "Memory of a run."
  type        = number
  default     = 4096
}

variable "cluster_arn" {
  description = "The ECS cluster."
  type        = string
}

variable "execution_role_arn" {
  description = "Role by which ECS pulls the image."
  type        = string
}

variable "task_role_arn" {
  description = "Role compactor of the module roles."
  type        = string
}

variable "log_group_name" {
  description = "Log group of the output."
  type        = string
}

variable "subnet_ids" {
  description = "Subnets of the tasks."
  type        = list(string)
}

variable "security_group_id" {
  description = "Security group of the tasks; it needs no way in."
  type        = string
}

variable "tags" {
  description = "Tags of everything."
  type        = map(string)
  default     = {}
}
