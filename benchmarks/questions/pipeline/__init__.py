"""Questions about streams that Spark keeps in order, asks and feeds."""
