output "log_group_name" {
  description = "Log group of brokers and compaction."
  value       = aws_cloudwatch_log_group.this.name
}

output "alarm_topic_arn" {
  description = "SNS topic of the alarms: subscribe to it."
  value       = aws_sns_topic.alarms.arn
}
