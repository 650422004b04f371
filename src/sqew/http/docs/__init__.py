"""Documentation that the server gives of itself: OpenAPI and its pages."""
