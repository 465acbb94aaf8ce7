"""The mathematics: floats to floats, without state, data or randomness."""
