"""The controllers that kube-controller-manager runs in a real cluster: Jobs, volume claims, garbage collection,
namespaces.
"""
