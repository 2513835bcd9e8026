"""The platform's API: REST under /api/v1, on the port that people's browsers use."""
