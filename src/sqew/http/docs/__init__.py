"""Documentation that the server serves of itself: OpenAPI and its pages."""
