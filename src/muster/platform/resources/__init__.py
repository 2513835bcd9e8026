"""What runs use: virtual clusters with their SKUs, queues, nodes and storage roots."""
