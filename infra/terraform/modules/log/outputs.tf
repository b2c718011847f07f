output "url" {
  description = "What --url of every command, and path of a Spark job, takes."
  value       = module.bucket.url
}

output "init" {
  description = "The command that makes the log, once."
  value       = "logstore init --url ${module.bucket.url} --registry ${module.registry.url}"
}

output "bootstrap" {
  description = "What clients in the VPC take as bootstrap.servers."
  value       = module.brokers.bootstrap
}

output "load_balancer_bootstrap" {
  description = "The load balancer's address for bootstrap.servers; null without one."
  value       = module.brokers.load_balancer_bootstrap
}

output "role_arns" {
  description = "Roles for people and jobs, by name."
  value       = merge(module.roles.person_role_arns, module.roles.topic_reader_role_arns)
}

output "process_role_arns" {
  description = "Roles of brokers and compaction: what the Helm chart's service accounts are annotated with."
  value       = module.roles.task_role_arns
}

output "log_group_name" {
  description = "Log group of brokers and compaction."
  value       = module.observability.log_group_name
}

output "alarm_topic_arn" {
  description = "SNS topic of the alarms: subscribe to it."
  value       = module.observability.alarm_topic_arn
}
