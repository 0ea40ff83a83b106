"""What traces say about acceptance: tables of numbers, each with its n and its interval."""
