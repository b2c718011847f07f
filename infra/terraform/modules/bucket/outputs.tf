output "arn" {
  description = "ARN of the bucket."
  value       = aws_s3_bucket.this.arn
}

output "url" {
  description = "What --url of every command takes."
  value       = "s3://${aws_s3_bucket.this.id}${var.prefix == "" ? "" : "/${var.prefix}"}"
}
