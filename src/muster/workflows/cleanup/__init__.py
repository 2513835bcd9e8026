"""What workflows leave behind, and when it goes: themselves, their Pods, their volumes, their artifacts."""
