variable "name" {
  description = "Name of the ECS cluster, and beginning of other names."
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
  description = "Image of brokers, of the target broker of the Dockerfile."
  type        = string

  validation {
    condition     = length(var.image) > 0
    error_message = "image names an image that ECS can pull: ACCOUNT.dkr.ecr.REGION.amazonaws.com/logstore:0.1.0."
  }
}

variable "brokers" {
  description = "How many broker processes."
  type        = number
  default     = 3

  validation {
    condition     = var.brokers >= 0 && floor(var.brokers) == var.brokers
    error_message = "brokers is a whole number from 0 up."
  }
}

variable "cpu" {
  description = "CPU units of a broker; 1024 are one virtual CPU. A broker uses one, and a little for threads."
  type        = number
  default     = 1024
}

variable "memory_mib" {
  description = "Memory of a broker. Its bounds by default add up to about 1.2 GiB."
  type        = number
  default     = 2048
}

variable "compute" {
  description = "What brokers run on: fargate, or ec2, an Auto Scaling group with an instance for each."
  type        = string
  default     = "fargate"

  validation {
    condition     = contains(["fargate", "ec2"], var.compute)
    error_message = "compute is fargate or ec2."
  }
}

variable "instance_type" {
  description = "Type of the instances: with room for cpu and memory_mib, and some 400 MiB for the agent of ECS."
  type        = string
  default     = "c7i.large"
}

variable "architecture" {
  description = "Of instances and image: x86_64 or arm64."
  type        = string
  default     = "x86_64"

  validation {
    condition     = contains(["x86_64", "arm64"], var.architecture)
    error_message = "architecture is x86_64 or arm64."
  }
}

variable "ami_id" {
  description = "Image of the instances, with the agent of ECS; null: the newest of AWS at each apply."
  type        = string
  default     = null
}

variable "load_balancer" {
  description = "Whether a Network Load Balancer has an address for bootstrap. Clients still connect to each broker."
  type        = bool
  default     = false
}

variable "settings" {
  description = "Settings of every broker by name, as in docs/settings.md."
  type        = map(string)
  default     = {}
}

variable "task_role_arn" {
  description = "Role broker of the module roles."
  type        = string
}

variable "log_group_name" {
  description = "Log group of the log lines."
  type        = string
}

variable "vpc_id" {
  description = "The VPC."
  type        = string
}

variable "subnet_ids" {
  description = "Subnets of the brokers, one in each zone."
  type        = list(string)
}

variable "client_cidrs" {
  description = "Addresses of Kafka clients. There is no TLS and no login: name as few as can be."
  type        = list(string)
  default     = []
}

variable "metrics_cidrs" {
  description = "Addresses that may read /metrics."
  type        = list(string)
  default     = []
}

variable "tags" {
  description = "Tags of everything."
  type        = map(string)
  default     = {}
}
