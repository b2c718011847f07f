output "task_role_arns" {
  description = "ARNs of the roles of ECS tasks: broker, compactor."
  value       = { for role, made in aws_iam_role.task : role => made.arn }
}

output "task_policies" {
  description = "What the roles of ECS tasks may do, as JSON."
  value       = { for role, policy in local.log_policies : role => jsonencode(policy) if contains(local.task_roles, role) }
}

output "person_role_arns" {
  description = "ARNs of the roles admin and reader, as far as they have principals."
  value       = { for role, made in aws_iam_role.person : role => made.arn }
}

output "topic_reader_role_arns" {
  description = "ARNs of the roles that read one topic, by their name."
  value       = { for name, made in aws_iam_role.topic_reader : name => made.arn }
}
