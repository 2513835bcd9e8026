"""The platform's SQL database: SQLite in the box's home, or PostgreSQL."""
