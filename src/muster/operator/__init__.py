"""The training controller as an operator on a real Kubernetes cluster: election, webhook, installation."""
