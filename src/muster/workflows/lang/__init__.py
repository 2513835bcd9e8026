"""The languages inside an Argo workflow: `when`, `depends`, `{{ }}`, `{{= }}`, `jsonpath()` and `jqFilter`, with
Go's behaviour.
"""
