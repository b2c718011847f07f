output "url" {
  description = "What --url of every command, and path of a Spark job, takes."
  value       = module.log.url
}

output "init" {
  description = "The command that makes the log, once."
  value       = module.log.init
}

output "bootstrap" {
  description = "What clients in the VPC take as bootstrap.servers."
  value       = module.log.bootstrap
}

output "role_arns" {
  description = "Roles for people and jobs, by name."
  value       = module.log.role_arns
}

output "alarm_topic_arn" {
  description = "SNS topic of the alarms: subscribe to it."
  value       = module.log.alarm_topic_arn
}
