"""What the SQL of a step reads and gives, and what Spark would refuse, without Spark."""
