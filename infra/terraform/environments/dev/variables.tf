variable "region" {
  description = "Region of everything."
  type        = string
}

variable "bucket_name" {
  description = "Name of the bucket, unique among all buckets of AWS."
  type        = string
}

variable "image" {
  description = "Image of brokers and compaction."
  type        = string
}

variable "zones" {
  description = "Availability zones of the VPC."
  type        = list(string)
}

variable "client_cidrs" {
  description = "Addresses of Kafka clients. There is no TLS and no login."
  type        = list(string)
  default     = []
}

variable "admin_principals" {
  description = "ARNs that may act as the administrator (logstore init)."
  type        = list(string)
  default     = []
}

variable "reader_principals" {
  description = "ARNs that may read every topic."
  type        = list(string)
  default     = []
}
