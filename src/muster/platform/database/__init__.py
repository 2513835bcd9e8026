"""The platform's SQL database: SQLite in the data directory, or PostgreSQL."""
