"""Who may do what: tokens, service accounts, roles, and the certificate that keeps them off the wire."""
