"""Steps that are one HTTP request."""
