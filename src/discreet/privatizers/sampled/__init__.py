"""One step of the episode a user, through a local randomiser."""
