"""One question about one cell a user, through a local randomiser."""
