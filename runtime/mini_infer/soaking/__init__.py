"""What a soak is made of: answers known beforehand, clients of every kind, and what is watched meanwhile."""
