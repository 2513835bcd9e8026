"""The node agent: turns Pods that are bound to a node of this machine into processes, and processes into status."""
