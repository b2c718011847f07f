# The log group, and alarms on what AWS itself counts. The brokers' own metrics are at /metrics, in
# Prometheus' form; nothing here scrapes them.

resource "aws_cloudwatch_log_group" "this" {
  #checkov:skip=CKV_AWS_158:log lines hold no record and no secret; CloudWatch encrypts them by a key of its own
  name              = "/logstore/${var.name}"
  retention_in_days = var.log_days
  tags              = var.tags
}

resource "aws_sns_topic" "alarms" {
  #checkov:skip=CKV_AWS_26:CloudWatch cannot publish to a topic with the key of AWS, and an alarm's text is no secret
  name = "${var.name}-alarms"
  tags = var.tags
}

resource "aws_cloudwatch_metric_alarm" "registry_throttled" {
  alarm_name          = "${var.name}-registry-throttled"
  alarm_description   = "DynamoDB throttles requests of the registry: takeovers and heartbeats are late. Look at the table's limits and the account's."
  namespace           = "AWS/DynamoDB"
  metric_name         = "ThrottledRequests"
  dimensions          = { TableName = var.table_name }
  statistic           = "Sum"
  period              = 60
  evaluation_periods  = 5
  datapoints_to_alarm = 3
  threshold           = 0
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_sns_topic.alarms.arn]
  ok_actions          = [aws_sns_topic.alarms.arn]
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "registry_errors" {
  alarm_name          = "${var.name}-registry-errors"
  alarm_description   = "DynamoDB answers the registry with errors of its own. Brokers go on producing; nothing is taken over."
  namespace           = "AWS/DynamoDB"
  metric_name         = "SystemErrors"
  dimensions          = { TableName = var.table_name }
  statistic           = "Sum"
  period              = 60
  evaluation_periods  = 5
  datapoints_to_alarm = 3
  threshold           = 0
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_sns_topic.alarms.arn]
  ok_actions          = [aws_sns_topic.alarms.arn]
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "busy" {
  alarm_name          = "${var.name}-brokers-busy"
  alarm_description   = "Brokers use more than 80 % of their CPU: add brokers."
  namespace           = "AWS/ECS"
  metric_name         = "CPUUtilization"
  dimensions          = { ClusterName = var.cluster_name, ServiceName = var.service_name }
  statistic           = "Average"
  period              = 60
  evaluation_periods  = 10
  threshold           = 80
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "missing"
  alarm_actions       = [aws_sns_topic.alarms.arn]
  ok_actions          = [aws_sns_topic.alarms.arn]
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "absent" {
  alarm_name          = "${var.name}-brokers-absent"
  alarm_description   = "No broker reports to ECS: nothing is served. Look at the service's events and the log group."
  namespace           = "AWS/ECS"
  metric_name         = "CPUUtilization"
  dimensions          = { ClusterName = var.cluster_name, ServiceName = var.service_name }
  statistic           = "SampleCount"
  period              = 60
  evaluation_periods  = 3
  threshold           = 1
  comparison_operator = "LessThanThreshold"
  treat_missing_data  = "breaching"
  alarm_actions       = [aws_sns_topic.alarms.arn]
  ok_actions          = [aws_sns_topic.alarms.arn]
  tags                = var.tags
}
