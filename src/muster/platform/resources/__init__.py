"""What runs are given: virtual clusters with their SKUs, and storage roots."""
