output "schedule_name" {
  description = "The schedule; to end compaction, disable it."
  value       = aws_scheduler_schedule.this.name
}
