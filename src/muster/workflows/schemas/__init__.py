"""The schemas of the argoproj.io kinds, in small pieces."""
