"""What a budget promises and costs: what `discreet budget` prints, for each kind of mechanism."""
