"""The schemas of the argoproj.io kinds."""
