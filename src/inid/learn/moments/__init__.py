"""Learning from moments: one release of second moments, on which a model is then solved exactly."""
