variable "name" {
  description = "Name of the VPC."
  type        = string
}

variable "cidr" {
  description = "Addresses of the VPC; each zone gets a sixteenth."
  type        = string
  default     = "10.80.0.0/16"
}

variable "zones" {
  description = "Availability zones: a subnet in each."
  type        = list(string)

  validation {
    condition     = length(var.zones) >= 1 && length(var.zones) <= 16
    error_message = "zones names 1 to 16 availability zones."
  }
}

variable "interface_endpoints" {
  description = "Services that tasks without a NAT gateway need; each costs about 7 dollars a month and zone."
  type        = list(string)
  default     = ["ecr.api", "ecr.dkr", "logs"]
}

variable "tags" {
  description = "Tags of everything."
  type        = map(string)
  default     = {}
}
