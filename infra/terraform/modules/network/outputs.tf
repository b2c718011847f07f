output "vpc_id" {
  description = "The VPC."
  value       = aws_vpc.this.id
}

output "subnet_ids" {
  description = "A subnet in each zone."
  value       = [for subnet in aws_subnet.private : subnet.id]
}
