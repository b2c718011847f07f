output "arn" {
  description = "ARN of the table."
  value       = aws_dynamodb_table.this.arn
}

output "url" {
  description = "What --registry of logstore init takes."
  value       = "dynamodb://${aws_dynamodb_table.this.name}"
}

output "name" {
  description = "Name of the table."
  value       = aws_dynamodb_table.this.name
}
