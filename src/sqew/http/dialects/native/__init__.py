"""The native dialect: REST under /v1."""
