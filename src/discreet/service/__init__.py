"""The service: HTTP and JSON on the live core, and a page to look at it."""
