"""What is written for people and programs: saved plans, pictures, alerts, the report."""
