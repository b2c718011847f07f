"""Real processes: started, watched, killed at named steps, and judged by what they left behind."""
