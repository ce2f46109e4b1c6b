"""What a text costs by language: counts over one parallel corpus, and what follows for context, time and money."""
