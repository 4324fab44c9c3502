"""Chat models: endpoints, a client, journals, many questions in parallel."""
