"""Argo Workflow semantics: a pure engine and a thin shell around it."""
