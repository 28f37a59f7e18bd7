"""Continuous maintenance: groups followed by their schedules, one process on duty, and what can be seen of it."""
