"""The platform's API: REST under /api/v1, on the port that browsers use."""
