"""The object API every part of Muster speaks: plain Kubernetes objects and pure functions on them."""
