"""One file a product: Query, Answer, answer(query). Used by its CLI and by its studio, and by nothing else."""
