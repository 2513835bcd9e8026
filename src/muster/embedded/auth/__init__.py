"""Authentication and authorization: tokens, service accounts, certificates and the kubeconfig."""
