"""Pictures of finished runs."""
