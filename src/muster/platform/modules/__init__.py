"""Modules: reusable units that are built from git repositories, reviewed, and pinned by workflows."""
