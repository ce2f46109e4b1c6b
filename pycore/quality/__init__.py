"""What few bits cost: weights looked at bit by bit, formats compared on them, and what was measured on whole models."""
