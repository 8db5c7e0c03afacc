"""First visits to few public cells a batch, through a shuffler."""
