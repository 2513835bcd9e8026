"""The expression languages of Argo Workflows: `when`, `depends`, `{{ }}` and `{{= }}`, as the originals behave."""
