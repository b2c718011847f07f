output "bootstrap" {
  description = "What clients in the VPC take as bootstrap.servers."
  value       = "brokers.${aws_service_discovery_private_dns_namespace.this.name}:${local.kafka_port}"
}

output "load_balancer_bootstrap" {
  description = "The load balancer's address for bootstrap.servers; null without one."
  value       = one([for made in aws_lb.this : "${made.dns_name}:${local.kafka_port}"])
}

output "environment" {
  description = "Variables of a broker's environment."
  value       = local.environment
}

output "cluster_arn" {
  description = "The ECS cluster."
  value       = aws_ecs_cluster.this.arn
}

output "cluster_name" {
  description = "Name of the ECS cluster."
  value       = aws_ecs_cluster.this.name
}

output "service_name" {
  description = "Name of the ECS service."
  value       = aws_ecs_service.this.name
}

output "execution_role_arn" {
  description = "Role by which ECS pulls the image."
  value       = aws_iam_role.execution.arn
}

output "security_group_id" {
  description = "Security group of the brokers."
  value       = aws_security_group.this.id
}

output "instance_group_names" {
  description = "Auto Scaling group of the instances; none on Fargate."
  value       = [for made in aws_autoscaling_group.this : made.name]
}
